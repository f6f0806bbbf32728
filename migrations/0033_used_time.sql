-- The wall time that a session had used when it was last noted, while it runs. A killed session has no end, and what it did after
-- its last iteration counts against its budget, too.
ALTER TABLE sessions ADD COLUMN used_s REAL;
