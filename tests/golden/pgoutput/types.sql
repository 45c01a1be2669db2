CREATE TABLE outbox (
  number bigint PRIMARY KEY, short smallint, token uuid, flag boolean, payload bytea, headers jsonb, topic char(8),
  tenant_id name, created_at timestamptz);
CREATE PUBLICATION outbox FOR TABLE outbox WITH (publish = 'insert');

-- capture
INSERT INTO outbox VALUES
  (-9223372036854775808, -32768, '00112233-4455-6677-8899-aabbccddeeff', true, '\x00ff5c', '{"a":1.50}', 'ab', 'Größe',
   '2026-11-21 09:58:54.95604+00'),
  (9223372036854775807, 32767, 'ffffffff-ffff-ffff-ffff-ffffffffffff', false, '', '[]', '', '', 'infinity'),
  (0, 0, NULL, NULL, NULL, NULL, NULL, NULL, '-infinity'),
  (1, 1, NULL, NULL, NULL, NULL, NULL, NULL, '1999-12-31 23:59:59.000001+00'),
  (2, 2, NULL, NULL, NULL, NULL, NULL, NULL, '2000-01-01 00:00:00+00'),
  (3, 3, NULL, NULL, NULL, NULL, NULL, NULL, '0044-03-15 12:00:00.5+00'),
  (4, 4, NULL, NULL, NULL, NULL, NULL, NULL, '9999-12-31 23:59:59.999999+00'),
  (5, 5, NULL, NULL, NULL, NULL, NULL, NULL, '2026-07-01 12:30:00+05:30');
