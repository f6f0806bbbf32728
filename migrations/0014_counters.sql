-- Evidence for a diagnosis: hardware counters of variants, and experiments that are no attempt at a win.
-- To see what holds kernels back:
--   SELECT c.iteration_id, c.case_name, c.kernel, c.tensor_pct, c.dram_pct, c.occupancy_pct FROM counters c
--   WHERE c.problem IS NULL;

-- The hardware counters of a variant on a case: a row for each launch of its plan, or one that says why there are none.
CREATE TABLE counters (
    iteration_id  INTEGER NOT NULL REFERENCES iterations (id),  -- the iteration that measured the variant
    case_name     TEXT NOT NULL,     -- the case
    launch        INTEGER NOT NULL,  -- place in the launch plan, from 0
    tool          TEXT,              -- the program that read them, with its version; NULL if there are none
    kernel        TEXT,              -- name of the kernel; NULL if there are none
    metrics       TEXT,              -- JSON: every counter of the launch (docs/counters.md); NULL if there are none
    problem       TEXT,              -- why there are none; NULL if there are
    begun         INTEGER NOT NULL,  -- iterations of the session begun until then
    wall_s        REAL NOT NULL,     -- wall time since the record before it: the share of this row
    counted_at    TEXT NOT NULL,     -- instant
    time_ns       REAL GENERATED ALWAYS AS (metrics ->> 'time_ns') VIRTUAL,        -- time of the launch while profiled
    tensor_pct    REAL GENERATED ALWAYS AS (metrics ->> 'tensor_pct') VIRTUAL,     -- use of the tensor cores
    fma_pct       REAL GENERATED ALWAYS AS (metrics ->> 'fma_pct') VIRTUAL,        -- use of the FP32 pipe
    xu_pct        REAL GENERATED ALWAYS AS (metrics ->> 'xu_pct') VIRTUAL,         -- use of the pipe for special functions
    dram_pct      REAL GENERATED ALWAYS AS (metrics ->> 'dram_pct') VIRTUAL,       -- bandwidth of device memory used
    l2_pct        REAL GENERATED ALWAYS AS (metrics ->> 'l2_pct') VIRTUAL,         -- bandwidth of L2 used
    l1_pct        REAL GENERATED ALWAYS AS (metrics ->> 'l1_pct') VIRTUAL,         -- use of L1 and shared memory
    occupancy_pct REAL GENERATED ALWAYS AS (metrics ->> 'occupancy_pct') VIRTUAL,  -- warps resident, of the most possible
    PRIMARY KEY (iteration_id, case_name, launch),
    CHECK ((metrics IS NULL) = (problem IS NOT NULL))
) STRICT;

CREATE TRIGGER counters_stay BEFORE UPDATE ON counters
BEGIN SELECT RAISE(ABORT, 'counters never change'); END;

CREATE TRIGGER counters_are_kept BEFORE DELETE ON counters
BEGIN SELECT RAISE(ABORT, 'counters never change'); END;

-- A new purpose. A CHECK cannot be changed, so the column is made again.
DROP TRIGGER finished_iteration_stays;
ALTER TABLE iterations RENAME COLUMN purpose TO earlier_purpose;
ALTER TABLE iterations ADD COLUMN purpose TEXT NOT NULL DEFAULT 'screening'
    CHECK (purpose IN ('initial', 'remeasurement', 'screening', 'confirmation', 'experiment'));  -- why it was run
UPDATE iterations SET purpose = earlier_purpose;
ALTER TABLE iterations DROP COLUMN earlier_purpose;
CREATE TRIGGER finished_iteration_stays BEFORE UPDATE ON iterations WHEN OLD.ended_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'the iteration is finished'); END;

-- A new kind of record. The table is made again under its own name, so that the triggers that write it stay as they are.
CREATE TABLE earlier_journal AS SELECT * FROM journal;
DROP TABLE journal;
CREATE TABLE journal (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order
    session_id   INTEGER NOT NULL REFERENCES sessions (id),
    kind         TEXT NOT NULL CHECK (kind IN ('resumed', 'baseline', 'begun', 'concluded', 'disqualified', 'final',
                                               'committed', 'booked', 'counted')),
    iteration_id INTEGER REFERENCES iterations (id),  -- the iteration that it is about, where it is about one
    case_name    TEXT,                                -- the case, where it is about one
    detail       TEXT   -- the rest of the key: a baseline's name, the number of a resumption, the id of a comparison or a cost
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
CREATE TRIGGER journal_counted AFTER INSERT ON counters WHEN NEW.launch = 0
BEGIN
    INSERT INTO journal (session_id, kind, iteration_id, case_name)
    SELECT session_id, 'counted', id, NEW.case_name FROM iterations WHERE id = NEW.iteration_id;
END;
