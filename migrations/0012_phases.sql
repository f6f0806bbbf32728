-- How long each kind of work takes. To see how much of a session its acceptance checks took:
--   SELECT s.id, (SELECT TOTAL(acceptance_s) FROM iterations WHERE session_id = s.id)
--              + (SELECT TOTAL(acceptance_s) FROM phases WHERE session_id = s.id) AS acceptance_s, s.wall_s
--   FROM sessions s;

-- The steps of an iteration, in seconds; NULL for those recorded before this was kept. Nothing is counted twice.
ALTER TABLE iterations ADD COLUMN waiting_s REAL;     -- waiting for its compilation, while the device was idle
ALTER TABLE iterations ADD COLUMN screening_s REAL;   -- output checks and the short measurement
ALTER TABLE iterations ADD COLUMN acceptance_s REAL;  -- acceptance checks on the device
ALTER TABLE iterations ADD COLUMN sanitizer_s REAL;   -- execution on a virtual GPU, while the device was idle
ALTER TABLE iterations ADD COLUMN comparison_s REAL;  -- comparisons, including the start of their processes

-- Work of a session that belongs to no iteration.
CREATE TABLE phases (
    id           INTEGER PRIMARY KEY,
    session_id   INTEGER NOT NULL REFERENCES sessions (id),
    phase        TEXT NOT NULL,  -- what was done: baselines, final or commits
    case_name    TEXT,           -- the case that it was done for; NULL if it was not for one case
    wall_s       REAL NOT NULL,  -- wall time in seconds; the columns below are parts of it, as in iterations
    waiting_s    REAL NOT NULL,
    screening_s  REAL NOT NULL,
    acceptance_s REAL NOT NULL,
    sanitizer_s  REAL NOT NULL,
    comparison_s REAL NOT NULL
) STRICT;

CREATE INDEX phases_by_session ON phases (session_id);

CREATE TRIGGER phase_stays BEFORE UPDATE ON phases
BEGIN SELECT RAISE(ABORT, 'the time of a phase never changes'); END;

CREATE TRIGGER phase_is_kept BEFORE DELETE ON phases
BEGIN SELECT RAISE(ABORT, 'the time of a phase never changes'); END;
