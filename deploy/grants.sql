-- The rights of the roles in deploy/roles.sql. To be run by outbox_owner after `walrelay init`.

GRANT USAGE ON SCHEMA walrelay TO relay, shop, oncall, cleaner;

-- The relay. The stream needs no right to the outbox.
GRANT SELECT ON walrelay.slots TO relay;
GRANT SELECT, INSERT, UPDATE ON walrelay.dead_letters TO relay; -- INSERT and UPDATE: for refusals that are not `stop`
GRANT SELECT, INSERT, UPDATE ON walrelay.positions TO relay; -- for position.keep: table

-- Writers: a row, by walrelay.emit or by INSERT.
GRANT INSERT ON public.outbox TO shop;

-- On call.
GRANT SELECT ON public.outbox, walrelay.slots, walrelay.positions TO oncall;
GRANT SELECT, INSERT, UPDATE ON walrelay.dead_letters TO oncall;
GRANT SELECT, INSERT, UPDATE, DELETE ON walrelay.replays TO oncall;

-- The clean-up by a role of its own: `walrelay cleanup`. (With `retention` the relay does it, and needs these.)
GRANT SELECT, DELETE ON public.outbox TO cleaner;
GRANT SELECT ON walrelay.slots TO cleaner;
