-- What each kind of instruction costs: the time of a variant without it.
-- To see what the winners of a session spend their time on:
--   SELECT c.case_name, a.removed, a.gain FROM ablations a JOIN commits c ON c.iteration_id = a.iteration_id
--                                                                       AND c.case_name = a.case_name
--   WHERE a.problem IS NULL ORDER BY c.case_name, a.gain DESC;

-- The times of a variant on a case without each kind of instruction: a row for each kind. The output is wrong without it.
CREATE TABLE ablations (
    iteration_id INTEGER NOT NULL REFERENCES iterations (id),  -- the iteration that measured the variant
    case_name    TEXT NOT NULL,     -- the case
    place        INTEGER NOT NULL,  -- order, from 0
    removed      TEXT NOT NULL,     -- what was removed; nothing is the control, compiled in the same way
    places       INTEGER NOT NULL,  -- instructions removed
    diverting    INTEGER NOT NULL,  -- of these, how many decide branches
    kept         INTEGER NOT NULL,  -- instructions of this kind that stay, because the kernel could not run without them
    time_ns      REAL,              -- median time in nanoseconds; NULL if there is none
    control_ns   REAL,              -- the same with nothing removed; NULL if there is none
    problem      TEXT,              -- why there is no time; NULL if there is
    begun        INTEGER NOT NULL,  -- iterations of the session begun until then
    wall_s       REAL NOT NULL,     -- wall time since the record before it: the share of this row
    ablated_at   TEXT NOT NULL,     -- instant
    gain         REAL GENERATED ALWAYS AS (control_ns / time_ns) VIRTUAL,  -- how many times as fast it is without
    PRIMARY KEY (iteration_id, case_name, place),
    CHECK ((time_ns IS NULL) = (problem IS NOT NULL))
) STRICT;

CREATE TRIGGER ablation_stays BEFORE UPDATE ON ablations
BEGIN SELECT RAISE(ABORT, 'an ablation never changes'); END;

CREATE TRIGGER ablation_is_kept BEFORE DELETE ON ablations
BEGIN SELECT RAISE(ABORT, 'an ablation never changes'); END;

-- A new kind of record. The table is made again under its own name, so that the triggers that write it stay as they are.
CREATE TABLE earlier_journal AS SELECT * FROM journal;
DROP TABLE journal;
CREATE TABLE journal (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order
    session_id   INTEGER NOT NULL REFERENCES sessions (id),
    kind         TEXT NOT NULL CHECK (kind IN ('resumed', 'baseline', 'begun', 'concluded', 'disqualified', 'final',
                                               'committed', 'booked', 'counted', 'ablated', 'call_begun', 'call_ended')),
    iteration_id INTEGER REFERENCES iterations (id),  -- the iteration that it is about, where it is about one
    case_name    TEXT,                                -- the case, where it is about one
    detail       TEXT   -- the rest of the key: a baseline's name, the number of a resumption, the id of a comparison, cost or call
) STRICT;
INSERT INTO journal (seq, session_id, kind, iteration_id, case_name, detail)
SELECT seq, session_id, kind, iteration_id, case_name, detail FROM earlier_journal ORDER BY seq;
DROP TABLE earlier_journal;
CREATE INDEX journal_by_session ON journal (session_id, seq);

CREATE TRIGGER journal_stays BEFORE UPDATE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal never changes'); END;

CREATE TRIGGER journal_is_kept BEFORE DELETE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal never changes'); END;

-- The first row stands for all kinds, which are written together.
CREATE TRIGGER journal_ablated AFTER INSERT ON ablations WHEN NEW.place = 0
BEGIN
    INSERT INTO journal (session_id, kind, iteration_id, case_name)
    SELECT session_id, 'ablated', id, NEW.case_name FROM iterations WHERE id = NEW.iteration_id;
END;
