-- Contests: kernels and baselines timed in turns in one run. Only ratios within a contest are paired; times of two contests
-- were taken at two moments. To read every ratio of an iteration:
--   SELECT c.case_name, e.role, e.name, e.ratio, e.ratio_lo, e.ratio_hi, c.noise
--   FROM contests c JOIN entrants e ON e.contest_id = c.id WHERE c.iteration_id = 7 ORDER BY c.case_name, e.position;

CREATE TABLE contests (
    id               INTEGER PRIMARY KEY,
    iteration_id     INTEGER REFERENCES iterations (id),  -- whose confirmation it was; NULL for a final
    session_id       INTEGER REFERENCES sessions (id),    -- whose final it was, held when the iterations were over; else NULL
    winner_id        INTEGER REFERENCES iterations (id),  -- whose variant a final left as the best of its case; else NULL
    case_name        TEXT NOT NULL,     -- name of the case
    conditions       TEXT NOT NULL,     -- JSON: workload, case, dimensions, dtype, device, regime and time source
    regime           TEXT NOT NULL GENERATED ALWAYS AS (conditions ->> 'regime'),  -- cache regime of every time in it
    entrants         INTEGER NOT NULL,  -- rows in the table of that name
    block            INTEGER NOT NULL,  -- samples that an entrant took before the next one's turn
    rounds           INTEGER NOT NULL,  -- rounds that count: one block of each entrant
    discarded_rounds INTEGER NOT NULL,  -- rounds thrown away because the GPU was throttled in one of their blocks
    noise            REAL NOT NULL,     -- how far from 1 the interval of the challenger over itself reaches (A/A control)
    shrinkage        REAL,              -- the challenger's median here over that of its screening; NULL if not screened
    floor_ns         REAL,              -- no correct kernel is faster; NULL if unknown
    others           TEXT NOT NULL,     -- JSON array: other processes that were on the GPU
    CHECK ((iteration_id IS NULL) <> (session_id IS NULL)),
    CHECK ((session_id IS NULL) = (winner_id IS NULL))
) STRICT;

CREATE UNIQUE INDEX contests_by_iteration ON contests (iteration_id, case_name) WHERE iteration_id IS NOT NULL;
CREATE INDEX contests_by_session ON contests (session_id) WHERE session_id IS NOT NULL;

-- The sides of a contest, the challenger at position 0.
CREATE TABLE entrants (
    contest_id          INTEGER NOT NULL REFERENCES contests (id),
    position            INTEGER NOT NULL,  -- place in the order of a round
    role                TEXT NOT NULL CHECK (role IN ('challenger', 'twin', 'incumbent', 'rival', 'baseline')),
                                           -- the twin is the challenger again, with its own code and workspaces
    name                TEXT NOT NULL,     -- the variant's family and hash, or the baseline's backend
    iteration_id        INTEGER REFERENCES iterations (id),  -- the iteration that brought it; NULL if none did
    samples             INTEGER NOT NULL,  -- number of samples in the rounds that count
    launches_per_sample INTEGER NOT NULL,  -- executions in one graph replay; a sample is the replay's time over it
    median_ns           REAL NOT NULL,     -- median of the samples
    ci_lo_ns            REAL NOT NULL,     -- lower end of the median's 95% interval
    ci_hi_ns            REAL NOT NULL,     -- upper end
    raw_ns              BLOB NOT NULL,     -- the samples, little-endian f32
    blocks_ns           BLOB NOT NULL,     -- the median of its block in each round, little-endian f32
    ratio               REAL,              -- its time over the challenger's, paired within rounds: above 1, the challenger is
                                           -- the faster; NULL for the challenger itself and without two rounds
    ratio_lo            REAL,              -- lower end of the ratio's 95% interval
    ratio_hi            REAL,              -- upper end
    relative_l2         REAL,              -- error over the whole timed output; NULL if it was not checked, as of a baseline
    worst_row           REAL,              -- error of the worst row
    rows_checked        INTEGER,           -- rows compared with the float64 reference
    rows                INTEGER,           -- rows of the output
    machine             TEXT,              -- JSON: clocks, power, temperature and throttling during its blocks; NULL without NVML
    sm_clock_mhz        REAL GENERATED ALWAYS AS (machine ->> 'sm_clock_mhz'),    -- median clock of the SMs
    power_w             REAL GENERATED ALWAYS AS (machine ->> 'power_w'),         -- median power
    temperature_c       INTEGER GENERATED ALWAYS AS (machine ->> 'temperature_c'), -- highest temperature
    throttle            TEXT GENERATED ALWAYS AS (machine ->> 'throttle'),        -- JSON array: why it ran below its clocks
    energy_j            REAL,              -- energy of one execution; NULL if not measured
    PRIMARY KEY (contest_id, position)
) STRICT, WITHOUT ROWID;

ALTER TABLE baselines ADD COLUMN regime TEXT NOT NULL DEFAULT 'warm';  -- cache regime of its times
ALTER TABLE baselines ADD COLUMN eager_ns REAL;     -- median of a call without a graph, the host's work with it; NULL if not timed
ALTER TABLE baselines ADD COLUMN relative_l2 REAL;  -- error over its whole output; NULL if it was not checked

CREATE TRIGGER finished_iteration_gains_no_contest BEFORE INSERT ON contests
WHEN (SELECT ended_at FROM iterations WHERE id = NEW.iteration_id) IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'the iteration is finished'); END;

CREATE TRIGGER ended_session_gains_no_final BEFORE INSERT ON contests
WHEN (SELECT status FROM sessions WHERE id = NEW.session_id) IN ('finished', 'failed')
BEGIN SELECT RAISE(ABORT, 'the session has ended'); END;

CREATE TRIGGER contest_stays BEFORE UPDATE ON contests
BEGIN SELECT RAISE(ABORT, 'a contest never changes'); END;

CREATE TRIGGER contest_is_kept BEFORE DELETE ON contests
BEGIN SELECT RAISE(ABORT, 'a contest never changes'); END;

CREATE TRIGGER contest_gains_no_entrant BEFORE INSERT ON entrants
WHEN (SELECT COUNT(*) FROM entrants WHERE contest_id = NEW.contest_id)
     >= (SELECT entrants FROM contests WHERE id = NEW.contest_id)
BEGIN SELECT RAISE(ABORT, 'a contest never changes'); END;

CREATE TRIGGER entrant_stays BEFORE UPDATE ON entrants
BEGIN SELECT RAISE(ABORT, 'a contest never changes'); END;

CREATE TRIGGER entrant_is_kept BEFORE DELETE ON entrants
BEGIN SELECT RAISE(ABORT, 'a contest never changes'); END;
