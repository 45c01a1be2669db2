CREATE SCHEMA "Odd, Schema.";
CREATE TYPE "Odd, Schema.".mood AS ENUM ('glad "1"', 'sad');
CREATE DOMAIN ratio AS numeric;
CREATE TABLE "Odd, Schema."."out.box\ ""*"" 'x'" (
  id numeric NOT NULL, aggregate_type "Odd, Schema.".mood, aggregate_id double precision, type boolean, payload bytea,
  headers json, topic char(8), tenant_id ratio, created_at timestamp);
CREATE TABLE "out.box\ ""*"" 'x'" (id int);
CREATE PUBLICATION outbox FOR TABLE "Odd, Schema."."out.box\ ""*"" 'x'" WITH (publish = 'insert');

-- capture
INSERT INTO "Odd, Schema."."out.box\ ""*"" 'x'" VALUES
  (1.50, 'glad "1"', 1e300, true, '\x00ff5c', '{"a":  1}', 'ab', 'NaN', '2026-11-21 09:58:54.5'),
  (12345678901234567890.000, 'sad', -0.1, false, '', '[]', '', -1.0, 'infinity'),
  (-0.0, NULL, 1e-7, NULL, NULL, NULL, NULL, NULL, NULL);

INSERT INTO "out.box\ ""*"" 'x'" VALUES (1);
