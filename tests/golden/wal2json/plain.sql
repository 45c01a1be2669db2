CREATE TABLE outbox (
  id uuid PRIMARY KEY, aggregate_type text, aggregate_id bigint, type varchar(40), payload jsonb, headers jsonb,
  topic text, tenant_id integer, created_at timestamptz);
CREATE TABLE other (id int PRIMARY KEY, n int);
CREATE PUBLICATION outbox FOR TABLE outbox WITH (publish = 'insert');

-- capture
INSERT INTO outbox VALUES ('00000000-0000-0000-0000-000000000001', 'order', 9223372036854775807, 'placed',
  '{"total": 99.50, "note": "quote \" backslash \\ tab \t"}', '{"trace": "a1"}', 'orders', -7,
  '2026-11-21 09:58:54.95604+00');

INSERT INTO other VALUES (1, 1);

BEGIN;
INSERT INTO other VALUES (2, 2);
INSERT INTO outbox VALUES ('00000000-0000-0000-0000-000000000002', E'"\\/\b\f\n\r\t\x01\x1f\x7f', 0, '', 'null', NULL, NULL, NULL,
  'infinity');
SAVEPOINT s;
INSERT INTO outbox VALUES ('00000000-0000-0000-0000-0000000000ff', 'rolled back');
ROLLBACK TO SAVEPOINT s;
INSERT INTO outbox VALUES ('00000000-0000-0000-0000-000000000003', 'ßеж€𝄞👩‍👩‍👧', NULL, 'é', '"𝄞 \u00e9 \ud834\udd1e"', '{}', '', 0,
  '0044-03-15 12:00:00+00 BC'), ('00000000-0000-0000-0000-000000000004', NULL, -1, NULL, NULL, NULL, NULL, NULL, NULL);
UPDATE outbox SET type = 'changed';
DELETE FROM outbox;
UPDATE other SET n = 3;
COMMIT;

SELECT pg_logical_emit_message(false, 'foreign', 'behind a transaction of more than one change');

BEGIN;
SELECT pg_logical_emit_message(true, 'walrelay', '{"id": "m1", "aggregate_id": 42, "type": "é \u00e9 \\ \"", "payload": {"n":  1.50}}');
INSERT INTO outbox (id, payload) VALUES ('00000000-0000-0000-0000-000000000005', '{}');
SELECT pg_logical_emit_message(true, 'walrelay', '{"id": "m2", "payload": null, "headers": {"k": "v"}}');
SELECT pg_logical_emit_message(true, 'foreign', '\x00ff'::bytea);
COMMIT;

SELECT pg_logical_emit_message(true, 'foreign', '\x61ff62'::bytea);

BEGIN;
INSERT INTO outbox (id, type) VALUES ('00000000-0000-0000-0000-0000000000fe', 'rolled back');
SELECT pg_logical_emit_message(false, 'foreign', 'not rolled back');
ROLLBACK;

TRUNCATE outbox, other;

INSERT INTO outbox (id, payload) SELECT ('00000000-0000-0000-0001-00000000000' || n)::uuid, to_jsonb(n) FROM generate_series(1, 9) AS n;

ALTER TABLE outbox DROP COLUMN topic, ADD COLUMN topic text, ADD COLUMN extra int[] DEFAULT '{1,NULL}';

INSERT INTO outbox (id, topic, payload) VALUES ('00000000-0000-0000-0000-000000000006', 'moved', to_jsonb(repeat('x', 3000))) ON CONFLICT DO NOTHING;
