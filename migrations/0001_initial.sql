-- The memory of optloop: sessions, what they tried, what became of it and what it cost.
-- Migrations are append-only: a released file is never edited, a change is a new file.
-- Units are in the names. Instants are RFC 3339 text in UTC, which sorts. JSON columns hold text.

-- The machines on which sessions ran. Two sessions on the same machine with the same software share a row.
CREATE TABLE environments (
    id           INTEGER PRIMARY KEY,
    hash         TEXT NOT NULL UNIQUE,  -- BLAKE3 of every other column that is not derived: one row an environment
    device       TEXT NOT NULL,         -- JSON: the device with its limits and peaks, as the session saw it
    device_id    TEXT NOT NULL GENERATED ALWAYS AS (device ->> 'id'),             -- how it was selected: `cuda:0`
    device_name  TEXT NOT NULL GENERATED ALWAYS AS (device ->> 'name'),           -- product: `NVIDIA H200`
    arch         TEXT NOT NULL GENERATED ALWAYS AS (device ->> 'arch'),           -- NVRTC architecture: `sm_90a`
    sms          INTEGER NOT NULL GENERATED ALWAYS AS (device ->> 'sms'),         -- streaming multiprocessors
    driver       TEXT GENERATED ALWAYS AS (device ->> 'driver'),                  -- driver version; NULL without one
    time_source  TEXT NOT NULL GENERATED ALWAYS AS (device ->> 'time_source')
                 CHECK (time_source IN ('measured', 'modelled')),                 -- the two are never compared
    peaks_source TEXT NOT NULL GENERATED ALWAYS AS (device -> 'peaks' ->> 'source'), -- where the ceilings come from
    nvrtc        TEXT NOT NULL,         -- version of the compiler
    optloop      TEXT NOT NULL,         -- version of optloop
    torch        TEXT,                  -- version of PyTorch; NULL where there is none, so no torch baseline
    host         TEXT NOT NULL          -- operating system and CPU of the host
) STRICT;

-- Budgeted runs.
CREATE TABLE sessions (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used again, even after a deletion
    environment_id INTEGER NOT NULL REFERENCES environments (id),
    workload       TEXT NOT NULL,     -- name of the workload
    proposer       TEXT NOT NULL,     -- who suggested variants: rules, search, llm, or a mix
    seed           INTEGER NOT NULL,  -- of the proposer's random choices: the bits of an unsigned 64-bit number
    budget_s       REAL NOT NULL,     -- wall time allowed
    max_cost_usd   REAL,              -- money allowed; NULL for no limit
    max_iterations INTEGER,           -- iterations allowed; NULL for no limit
    cases          TEXT NOT NULL,     -- JSON array: names of the cases selected, in the workload's order
    config         TEXT NOT NULL,     -- JSON: every setting in force at the start
    status         TEXT NOT NULL DEFAULT 'running'  -- still `running` with no process behind it: optloop died
                   CHECK (status IN ('running', 'finished', 'interrupted', 'failed')),
    stop_reason    TEXT,              -- why it ended, for people; NULL while running
    started_at     TEXT NOT NULL,     -- instant
    ended_at       TEXT,              -- instant; NULL while running
    wall_s         REAL,              -- wall time used; NULL while running
    CHECK ((status = 'running') = (ended_at IS NULL))
) STRICT;

-- What a user would use instead of a variant, timed in the session on the same device.
CREATE TABLE baselines (
    session_id          INTEGER NOT NULL REFERENCES sessions (id),
    case_name           TEXT NOT NULL,     -- name of the case
    name                TEXT NOT NULL,     -- what was timed, such as `torch sdpa (flash)`
    samples             INTEGER NOT NULL,  -- number of samples
    launches_per_sample INTEGER NOT NULL,  -- executions in one graph replay; a sample is the replay's time over it
    median_ns           REAL NOT NULL,     -- median of the samples
    ci_lo_ns            REAL NOT NULL,     -- lower end of the median's 95% interval
    ci_hi_ns            REAL NOT NULL,     -- upper end
    raw_ns              BLOB NOT NULL,     -- the samples, little-endian f32
    PRIMARY KEY (session_id, case_name, name)
) STRICT, WITHOUT ROWID;

-- Compiled variants, without the CUBIN itself: that is in the cache under the same key.
CREATE TABLE artifacts (
    key         TEXT PRIMARY KEY,  -- hash over source, options, architecture and NVRTC version
    arch        TEXT NOT NULL,     -- architecture compiled for
    nvrtc       TEXT NOT NULL,     -- NVRTC version
    options     TEXT NOT NULL,     -- JSON array: options given to NVRTC
    kernels     TEXT NOT NULL,     -- JSON array: registers, shared memory, stack and spills of each kernel
    log         TEXT NOT NULL,     -- the compiler's log
    compile_ms  REAL NOT NULL,     -- time the compiler took; 0 out of the cache
    cubin_bytes INTEGER NOT NULL   -- size of the CUBIN
) STRICT, WITHOUT ROWID;

-- Turns of the loop. A row is written before the device is touched, so that a crash leaves a trace.
CREATE TABLE iterations (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,  -- the number that people use, unique over all sessions
    session_id      INTEGER NOT NULL REFERENCES sessions (id),
    ordinal         INTEGER NOT NULL,  -- 1 for the first of its session
    proposer        TEXT NOT NULL,     -- who proposed it
    family          TEXT NOT NULL,     -- the variant's family
    params          TEXT NOT NULL,     -- JSON object: the variant's parameters, in the manifest's order
    hash            TEXT NOT NULL,     -- the variant's name: hash of `source`
    source          TEXT NOT NULL,     -- rendered CUDA source
    parent_id       INTEGER REFERENCES iterations (id),  -- whose variant this one was changed from; NULL for a first one
    cases           TEXT NOT NULL,     -- JSON array: the cases to try it on, with their dimensions
    started_at      TEXT NOT NULL,     -- instant
    ended_at        TEXT,              -- instant; NULL while in flight, and for ever if optloop died
    outcome         TEXT               -- what the device said; NULL until it ends
                    CHECK (outcome IN ('measured', 'rejected_by_compiler', 'wrong', 'crashed', 'timed_out', 'cheated',
                                       'pruned')),
    outcome_case    TEXT,              -- the case on which it went wrong, if on one
    outcome_message TEXT,              -- what there is to say beyond the outcome
    compile_log     TEXT,              -- the compiler's log where there is no artifact to hold it
    artifact_key    TEXT REFERENCES artifacts (key),  -- NULL if it did not compile
    device_s        REAL,              -- time for which it occupied the device; NULL until it ends
    wall_s          REAL,              -- wall time since the record before it; NULL until it ends
    UNIQUE (session_id, ordinal),
    CHECK ((ended_at IS NULL) = (outcome IS NULL))
) STRICT;

CREATE INDEX iterations_by_hash ON iterations (hash);

-- What was found and decided on each case that an iteration reached.
CREATE TABLE measurements (
    iteration_id                     INTEGER NOT NULL REFERENCES iterations (id),
    case_name                        TEXT NOT NULL,  -- name of the case
    relative_l2                      REAL,     -- error over the whole output; NULL if no output could be compared
    worst_row                        REAL,     -- error of the worst row
    rows_checked                     INTEGER,  -- rows compared with the float64 reference
    rows                             INTEGER,  -- rows of the output
    ctas                             INTEGER,  -- blocks of the largest launch
    regime                           TEXT NOT NULL DEFAULT 'warm',  -- cache regime of the times
    screening_samples                INTEGER,  -- the short measurement: number of samples; NULL if not timed
    screening_launches_per_sample    INTEGER,  -- executions in one graph replay
    screening_median_ns              REAL,     -- median of the samples
    screening_ci_lo_ns               REAL,     -- lower end of the median's 95% interval
    screening_ci_hi_ns               REAL,     -- upper end
    screening_raw_ns                 BLOB,     -- the samples, little-endian f32
    confirmation_samples             INTEGER,  -- the long measurement on fresh inputs: number of samples
    confirmation_launches_per_sample INTEGER,  -- executions in one graph replay
    confirmation_median_ns           REAL,     -- median of the samples
    confirmation_ci_lo_ns            REAL,     -- lower end of the median's 95% interval
    confirmation_ci_hi_ns            REAL,     -- upper end
    confirmation_raw_ns              BLOB,     -- the samples, little-endian f32
    best_ns                          REAL GENERATED ALWAYS AS (COALESCE(confirmation_median_ns, screening_median_ns)) STORED,
                                               -- the time to report: the confirmed one where there is one
    verdict                          TEXT CHECK (verdict IN ('start', 'improved', 'tied', 'regressed', 'rejected')),
                                               -- what was decided; NULL if there was nothing to decide on
    speedup                          REAL,     -- the incumbent's time over this one; NULL without an incumbent or a time
    PRIMARY KEY (iteration_id, case_name)
) STRICT, WITHOUT ROWID;

-- The commits of winners: beside the measurements, which never change, because a commit follows its record.
CREATE TABLE commits (
    iteration_id INTEGER NOT NULL,
    case_name    TEXT NOT NULL,
    commit_id    TEXT NOT NULL,  -- git's name of the commit
    PRIMARY KEY (iteration_id, case_name),
    FOREIGN KEY (iteration_id, case_name) REFERENCES measurements (iteration_id, case_name)
) STRICT, WITHOUT ROWID;

-- What was claimed before an iteration, and how it turned out.
CREATE TABLE hypotheses (
    iteration_id INTEGER PRIMARY KEY REFERENCES iterations (id),
    claim        TEXT NOT NULL,  -- what is expected to help, and why
    evidence     TEXT NOT NULL,  -- what the claim rests on
    case_name    TEXT NOT NULL,  -- the case on which it is tested
    predicted_lo REAL NOT NULL,  -- predicted speed-up, lower end
    predicted_hi REAL NOT NULL,  -- upper end
    relative_to  INTEGER REFERENCES iterations (id),  -- whose time the speed-up is over; NULL for a first variant
    actual       REAL,           -- the speed-up found; NULL until then, and if it was not tested
    score        TEXT            -- NULL until the iteration ends
                 CHECK (score IN ('confirmed', 'exceeded', 'refuted', 'untested'))
) STRICT;

-- What was spent. A session's total is the sum of its rows.
CREATE TABLE costs (
    id           INTEGER PRIMARY KEY,
    session_id   INTEGER NOT NULL REFERENCES sessions (id),
    iteration_id INTEGER REFERENCES iterations (id),  -- NULL for what no single iteration accounts for
    kind         TEXT NOT NULL CHECK (kind IN ('gpu', 'llm')),  -- the device, or language models
    seconds      REAL NOT NULL,  -- for which the device was held; 0 for language models
    usd          REAL NOT NULL   -- US dollars
) STRICT;

CREATE INDEX costs_by_session ON costs (session_id);
CREATE INDEX costs_by_iteration ON costs (iteration_id);

-- What is finished stays as it is: reports written from it must stay true.
CREATE TRIGGER ended_session_stays BEFORE UPDATE ON sessions WHEN OLD.status IN ('finished', 'failed')
BEGIN SELECT RAISE(ABORT, 'the session has ended'); END;

CREATE TRIGGER finished_iteration_stays BEFORE UPDATE ON iterations WHEN OLD.ended_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'the iteration is finished'); END;

CREATE TRIGGER finished_iteration_is_kept BEFORE DELETE ON iterations WHEN OLD.ended_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'the iteration is finished'); END;

CREATE TRIGGER finished_iteration_gains_no_measurement BEFORE INSERT ON measurements
WHEN (SELECT ended_at FROM iterations WHERE id = NEW.iteration_id) IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'the iteration is finished'); END;

CREATE TRIGGER measurement_stays BEFORE UPDATE ON measurements
BEGIN SELECT RAISE(ABORT, 'a measurement never changes'); END;

CREATE TRIGGER measurement_is_kept BEFORE DELETE ON measurements
BEGIN SELECT RAISE(ABORT, 'a measurement never changes'); END;

CREATE TRIGGER commit_stays BEFORE UPDATE ON commits
BEGIN SELECT RAISE(ABORT, 'the winner is already committed'); END;

CREATE TRIGGER claim_stays BEFORE UPDATE OF claim, evidence, case_name, predicted_lo, predicted_hi, relative_to
ON hypotheses
BEGIN SELECT RAISE(ABORT, 'a claim never changes after it was made'); END;

CREATE TRIGGER score_stays BEFORE UPDATE ON hypotheses WHEN OLD.score IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'the hypothesis is already scored'); END;
