-- One row for each relay: what its leader reports, and whether somebody wants it to pause. An UPDATE of `paused` is obeyed
-- at once, by the notification that a trigger sends. The relay writes the other columns: when its state changes, and every
-- ten seconds while events flow.
CREATE TABLE IF NOT EXISTS walrelay.relays (
    slot_name      text PRIMARY KEY,
    name           text NOT NULL,                 -- of the relay in its settings; of its slot, if it has none there
    state          text NOT NULL DEFAULT 'not started',
    instance       text,                          -- HOST:PID of the process that reported last
    position       pg_lsn,                        -- confirmed up to there
    lag_bytes      bigint,                        -- the WAL behind it, at updated_at
    lag_seconds    double precision,              -- the age of the oldest event that waited for long, at updated_at
    last_error     text,
    last_error_at  timestamptz,
    updated_at     timestamptz,
    paused         boolean NOT NULL DEFAULT false,
    pause_reason   text,
    paused_by      text,
    paused_at      timestamptz,
    paused_until   timestamptz,                   -- NULL: until somebody resumes it
    pause_limit    bigint CHECK (pause_limit > 0),-- bytes of WAL that the slot may retain meanwhile
    at_pause_limit text NOT NULL DEFAULT 'resume' CHECK (at_pause_limit IN ('resume', 'drop_slot')),
    given_up       jsonb                          -- how far the slot had got that was dropped at the limit
) WITH (fillfactor = 10);
ALTER TABLE walrelay.relays
    ADD COLUMN IF NOT EXISTS error_count bigint NOT NULL DEFAULT 0, -- errors and stalls since its process began it
    ADD COLUMN IF NOT EXISTS lead text,                             -- the lead whose reports these are; NULL: not known
    ADD COLUMN IF NOT EXISTS ended_at timestamptz;                  -- of that lead; updated_at, or it proves nothing

CREATE OR REPLACE FUNCTION walrelay.note_pause() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $note$
BEGIN
    IF NOT NEW.paused THEN
        NEW.pause_reason := NULL;
        NEW.paused_by := NULL;
        NEW.paused_at := NULL;
        NEW.paused_until := NULL;
        NEW.pause_limit := NULL;
        NEW.at_pause_limit := 'resume';
        RETURN NEW;
    END IF;
    -- A pause that expired is no pause. What the UPDATE leaves of it as it was does not belong to the new one.
    IF TG_OP = 'UPDATE' AND NEW.paused_until <= clock_timestamp()
        AND NEW.paused_until IS NOT DISTINCT FROM OLD.paused_until THEN
        NEW.paused_until := NULL;
        NEW.paused_at := NULL;
        NEW.paused_by := nullif(NEW.paused_by, OLD.paused_by);
        NEW.pause_reason := nullif(NEW.pause_reason, OLD.pause_reason);
        NEW.pause_limit := nullif(NEW.pause_limit, OLD.pause_limit);
        IF NEW.pause_limit IS NULL THEN
            NEW.at_pause_limit := 'resume';
        END IF;
    END IF;
    IF NEW.paused_at IS NULL THEN
        NEW.paused_at := clock_timestamp();
        NEW.paused_by := coalesce(NEW.paused_by, current_user);
    END IF;
    RETURN NEW;
END $note$;

CREATE OR REPLACE FUNCTION walrelay.notify_pause() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $notify$
BEGIN
    PERFORM pg_notify('walrelay_relays', CASE WHEN TG_OP = 'DELETE' THEN OLD.slot_name ELSE NEW.slot_name END);
    RETURN NULL;
END $notify$;

DROP TRIGGER IF EXISTS note_pause ON walrelay.relays;
CREATE TRIGGER note_pause BEFORE INSERT OR UPDATE OF paused ON walrelay.relays
    FOR EACH ROW EXECUTE FUNCTION walrelay.note_pause();
DROP TRIGGER IF EXISTS notify_pause ON walrelay.relays;
CREATE TRIGGER notify_pause
    AFTER INSERT OR DELETE OR UPDATE OF paused, pause_reason, paused_by, paused_until, pause_limit, at_pause_limit
    ON walrelay.relays FOR EACH ROW EXECUTE FUNCTION walrelay.notify_pause();

-- Also for a role that has session_replication_role = replica, which leaves ordinary triggers out.
ALTER TABLE walrelay.relays ENABLE ALWAYS TRIGGER note_pause, ENABLE ALWAYS TRIGGER notify_pause;
