-- The rights of the roles in deploy/roles.sql. To be run by outbox_owner after `walrelay init`.

GRANT USAGE ON SCHEMA walrelay TO relay, shop, oncall, cleaner;

-- The relay. The stream needs no right to the outbox.
GRANT SELECT ON walrelay.slots TO relay;
GRANT SELECT ON walrelay.dead_letters TO relay;
GRANT SELECT, INSERT, UPDATE ON walrelay.relays TO relay;
GRANT SELECT, INSERT, UPDATE ON walrelay.activity TO relay;
GRANT INSERT, UPDATE ON walrelay.dead_letters TO relay; -- for refusals that are not `stop`
GRANT SELECT, INSERT, UPDATE ON walrelay.positions TO relay; -- for position.keep: table
-- GRANT SELECT, DELETE ON public.outbox TO relay; -- for retention, where no other role cleans up
-- GRANT SELECT, UPDATE ON public.outbox TO relay; -- for outbox.mark_published
-- GRANT UPDATE (published_from) ON walrelay.slots TO relay; -- for run --from-slot; to be revoked when it runs

-- Writers: a row, by walrelay.emit or by INSERT.
GRANT INSERT ON public.outbox TO shop;
-- GRANT SELECT, DELETE ON public.outbox TO shop; -- for walrelay.emit_and_delete and Outbox(storage="deleted_row")

-- On call.
GRANT SELECT ON public.outbox TO oncall;
GRANT SELECT ON walrelay.slots TO oncall;
GRANT SELECT ON walrelay.positions TO oncall;
GRANT SELECT, INSERT, UPDATE ON walrelay.dead_letters TO oncall;
GRANT SELECT, INSERT, UPDATE ON walrelay.relays TO oncall;
GRANT SELECT ON walrelay.activity TO oncall;
GRANT SELECT, INSERT, UPDATE, DELETE ON walrelay.replays TO oncall;
GRANT SELECT, INSERT ON walrelay.audit_log TO oncall; -- for walrelay admin
GRANT SELECT, INSERT, UPDATE ON walrelay.jobs TO oncall; -- for walrelay admin

-- The clean-up by a role of its own: `walrelay cleanup`.
GRANT SELECT, DELETE ON public.outbox TO cleaner;
GRANT SELECT ON walrelay.slots TO cleaner;
