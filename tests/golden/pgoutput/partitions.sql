CREATE SCHEMA sales;
CREATE TABLE sales.events (id int NOT NULL, region text NOT NULL, body json) PARTITION BY LIST (region);
CREATE TABLE sales.eu PARTITION OF sales.events FOR VALUES IN ('eu');
CREATE TABLE sales.us (body json, region text NOT NULL, id int NOT NULL);
ALTER TABLE sales.events ATTACH PARTITION sales.us FOR VALUES IN ('us');
CREATE TABLE sales.outbox (id int);
CREATE PUBLICATION outbox FOR TABLE sales.events, sales.outbox WITH (publish = 'insert', publish_via_partition_root = true);

-- capture
INSERT INTO sales.events VALUES (1, 'eu', '{"a":  1}'), (2, 'us', '{"b":  2}'), (3, 'eu', NULL);

INSERT INTO sales.us (id, region, body) VALUES (4, 'us', '[]');

CREATE TABLE sales.asia PARTITION OF sales.events FOR VALUES IN ('asia');
INSERT INTO sales.events VALUES (5, 'asia', '5');
INSERT INTO sales.outbox VALUES (99);

ALTER TABLE sales.events DETACH PARTITION sales.us;
INSERT INTO sales.us (id, region) VALUES (98, 'us');
DROP TABLE sales.eu;

INSERT INTO sales.events VALUES (6, 'asia', NULL);
