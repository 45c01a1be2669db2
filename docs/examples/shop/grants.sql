-- What the two services may do, as the roles of deploy/roles.sql; deploy/grants.sql has the outbox and the relay.
GRANT SELECT, INSERT, UPDATE ON orders TO shop;
GRANT SELECT, INSERT, UPDATE ON idempotency_keys TO shop;

GRANT SELECT, INSERT, UPDATE ON invoices, accounts TO billing;
GRANT SELECT, INSERT ON inbox TO billing;
GRANT INSERT ON outbox TO billing; -- it emits an event for each invoice
