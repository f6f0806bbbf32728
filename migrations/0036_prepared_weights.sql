-- The bytes of the weights that the plan's preparation made, and the time of the preparation on one set of buffers. NULL where the
-- plan has none; the time also where it was not taken.
ALTER TABLE measurements ADD COLUMN prepared_bytes INTEGER;
ALTER TABLE measurements ADD COLUMN preparation_ns REAL;
