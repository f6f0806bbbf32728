-- Hardware counters of baselines: what a call of PyTorch's fastest backend does, beside the same counters of the winner.
-- To compare their instructions:
--   SELECT case_name, name, SUM(metrics ->> 'instructions') AS instructions FROM baseline_counters
--   WHERE session_id = 1 GROUP BY case_name, name;

-- The hardware counters of one call of a baseline on a case: a row for each launch, or one that says why there are none.
CREATE TABLE baseline_counters (
    session_id INTEGER NOT NULL REFERENCES sessions (id),  -- the session that read them
    case_name  TEXT NOT NULL,     -- the case
    name       TEXT NOT NULL,     -- the baseline's name for its backend, as in baselines
    launch     INTEGER NOT NULL,  -- order within the call, from 0
    tool       TEXT,              -- the program that read them, with its version; NULL if there are none
    kernel     TEXT,              -- the kernel; NULL if there are none
    metrics    TEXT,              -- JSON: every counter of the launch (docs/counters.md); NULL if there are none
    problem    TEXT,              -- why there are none; NULL if there are
    begun      INTEGER NOT NULL,  -- iterations of the session begun until then
    wall_s     REAL NOT NULL,     -- wall time since the record before it: the share of this row
    counted_at TEXT NOT NULL,     -- instant
    PRIMARY KEY (session_id, case_name, name, launch),
    CHECK ((metrics IS NULL) = (problem IS NOT NULL))
) STRICT;

CREATE TRIGGER baseline_counters_stay BEFORE UPDATE ON baseline_counters
BEGIN SELECT RAISE(ABORT, 'counters never change'); END;

CREATE TRIGGER baseline_counters_are_kept BEFORE DELETE ON baseline_counters
BEGIN SELECT RAISE(ABORT, 'counters never change'); END;

-- A new kind of record. The table is made again under its own name, so that the triggers that write it stay as they are.
CREATE TABLE earlier_journal AS SELECT * FROM journal;
DROP TABLE journal;
CREATE TABLE journal (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order
    session_id   INTEGER NOT NULL REFERENCES sessions (id),
    kind         TEXT NOT NULL CHECK (kind IN ('resumed', 'baseline', 'begun', 'concluded', 'disqualified', 'final',
                                               'committed', 'booked', 'counted', 'counted_baseline', 'ablated',
                                               'call_begun', 'call_ended')),
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

-- The first row stands for all launches, which are written together.
CREATE TRIGGER journal_counted_baseline AFTER INSERT ON baseline_counters WHEN NEW.launch = 0
BEGIN
    INSERT INTO journal (session_id, kind, case_name, detail)
    VALUES (NEW.session_id, 'counted_baseline', NEW.case_name, NEW.name);
END;
