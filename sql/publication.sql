-- Inserts only: the outbox needs no replica identity, and deletes of the clean-up stay out of the stream.
-- A partitioned outbox is published under its own name. Must be committed before the slot is made.
CREATE PUBLICATION :publication FOR TABLE :table WITH (publish = 'insert', publish_via_partition_root = true);
