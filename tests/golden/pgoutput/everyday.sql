CREATE TYPE mood AS ENUM ('glad', 'sad');
CREATE TABLE outbox (
  id uuid PRIMARY KEY, aggregate_type text, aggregate_id bigint, type varchar(40), payload jsonb, headers json,
  topic text, tenant_id integer, created_at timestamptz, extra text);
CREATE TABLE other (id int PRIMARY KEY, feeling mood);
CREATE TABLE unpublished (id int);
CREATE PUBLICATION outbox FOR TABLE outbox, other WITH (publish = 'insert, update, delete, truncate');

-- capture
INSERT INTO outbox VALUES ('00000000-0000-0000-0000-000000000001', 'order', 9223372036854775807, 'placed',
  '{"total": 99.50, "note": "quote \" backslash \\ tab \t"}', '{"trace":  "a1"}', 'orders', -7,
  '2026-11-21 09:58:54.95604+00');

INSERT INTO other VALUES (1, 'glad');

INSERT INTO unpublished SELECT generate_series(1, 100);

BEGIN;
INSERT INTO other VALUES (2, 'sad');
INSERT INTO outbox (id, aggregate_type, payload) VALUES ('00000000-0000-0000-0000-000000000002', '', 'null');
SAVEPOINT s;
INSERT INTO outbox (id, aggregate_type) VALUES ('00000000-0000-0000-0000-0000000000ff', 'rolled back');
ROLLBACK TO SAVEPOINT s;
INSERT INTO outbox (id, type, payload) VALUES ('00000000-0000-0000-0000-000000000003', 'ßе€𝄞', '"\u00e9"'),
  ('00000000-0000-0000-0000-000000000004', NULL, NULL);
UPDATE outbox SET type = 'changed';
DELETE FROM outbox;
COMMIT;

BEGIN;
INSERT INTO outbox (id) VALUES ('00000000-0000-0000-0000-0000000000fe');
ROLLBACK;

BEGIN;
SELECT pg_logical_emit_message(true, 'walrelay', '{"id": "m1", "aggregate_id": 42, "type": "\u00e9", "payload": {"n":  1.50}}');
INSERT INTO outbox (id, payload) VALUES ('00000000-0000-0000-0000-000000000005', '{}');
SELECT pg_logical_emit_message(true, 'foreign', '\x00ff'::bytea);
SELECT pg_logical_emit_message(true, 'walrelay', '{"id": "m2", "payload": [1, 2 ,3]}');
COMMIT;

SELECT pg_logical_emit_message(false, 'foreign', 'of no concern');

BEGIN;
SELECT pg_logical_emit_message(false, 'walrelay', '{"id": "loose", "payload": 1}');
ROLLBACK;

TRUNCATE outbox, other;

INSERT INTO outbox (id, payload)
  SELECT ('00000000-0000-0000-0001-00000000000' || n)::uuid, to_jsonb(n) FROM generate_series(1, 9) AS n;

BEGIN;
ALTER TABLE outbox DROP COLUMN topic, DROP COLUMN extra, ADD COLUMN topic text;
INSERT INTO outbox (id, topic) VALUES ('00000000-0000-0000-0000-000000000006', 'moved');
ALTER TABLE outbox ADD COLUMN more int[] DEFAULT '{1,NULL}';
INSERT INTO outbox (id, topic, payload) VALUES ('00000000-0000-0000-0000-000000000007', 'moved', to_jsonb(repeat('x', 9000)));
COMMIT;
