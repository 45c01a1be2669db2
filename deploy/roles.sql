-- The roles of docs/security.md: each may do its own work and no other. To be run by a superuser in the database
-- of the outbox, before `walrelay init`. Change the passwords. deploy/grants.sql comes after `walrelay init`.

-- The owner creates and removes what walrelay needs: `walrelay init`, `recover` and `drop`. It is no superuser.
CREATE ROLE outbox_owner LOGIN REPLICATION PASSWORD 'outbox_owner';
DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO outbox_owner', current_database()); END $$;
GRANT USAGE, CREATE ON SCHEMA public TO outbox_owner;

-- The relay: `walrelay run` and `doctor`. The statistics show whether commits would wait for the relay.
CREATE ROLE relay LOGIN REPLICATION PASSWORD 'relay';
GRANT USAGE ON SCHEMA public TO relay;
GRANT pg_read_all_stats TO relay;

-- Writers, consumers, the operator on call (`status`, `tail`, `audit`, `replay`, `dlq`, `skip`), and the clean-up.
CREATE ROLE shop LOGIN PASSWORD 'shop';
CREATE ROLE billing LOGIN PASSWORD 'billing';
CREATE ROLE oncall LOGIN REPLICATION PASSWORD 'oncall';
CREATE ROLE cleaner LOGIN PASSWORD 'cleaner';
GRANT USAGE ON SCHEMA public TO shop, billing, oncall, cleaner;
