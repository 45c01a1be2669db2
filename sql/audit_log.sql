-- Who changed what by way of the admin API: a row before it is done, and one with the outcome. Written by `walrelay admin`,
-- whose role may add rows but not change them.
CREATE TABLE IF NOT EXISTS walrelay.audit_log (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    slot_name text NOT NULL,
    caller    text NOT NULL,                -- the name in the settings, or anonymous
    way       text NOT NULL,                -- token, certificate, proxy or anonymous
    address   text NOT NULL,
    action    text NOT NULL,
    request   json NOT NULL,
    job       bigint,                       -- in walrelay.jobs
    outcome   text                          -- NULL: it is about to begin
);

CREATE INDEX IF NOT EXISTS audit_log_of_slot ON walrelay.audit_log (slot_name, id);
