-- Where the oracle of a session's op was computed, if it was to be on a GPU: `cuda:0`, or the CPU and why.
ALTER TABLE sessions ADD COLUMN oracle_on TEXT;
