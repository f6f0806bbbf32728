-- The words of optloop 0.2: contests are comparisons, their entrants are participants, blocks of samples are groups.
-- To read every ratio of an iteration:
--   SELECT c.case_name, p.role, p.name, p.ratio, p.ratio_lo, p.ratio_hi, c.noise
--   FROM comparisons c JOIN participants p ON p.comparison_id = c.id WHERE c.iteration_id = 7 ORDER BY c.case_name, p.position;

-- They are made again below, under their new names.
DROP TRIGGER finished_iteration_gains_no_contest;
DROP TRIGGER ended_session_gains_no_final;
DROP TRIGGER contest_stays;
DROP TRIGGER contest_is_kept;
DROP TRIGGER contest_gains_no_entrant;
DROP TRIGGER entrant_stays;
DROP TRIGGER entrant_is_kept;
DROP TRIGGER journal_final;
DROP TRIGGER finished_iteration_stays;
DROP TRIGGER finished_session_stays;
DROP INDEX contests_by_iteration;
DROP INDEX contests_by_session;

ALTER TABLE contests RENAME TO comparisons;
ALTER TABLE comparisons RENAME COLUMN entrants TO participants;    -- rows in the table of that name
ALTER TABLE comparisons RENAME COLUMN block TO group_size;         -- samples that a participant took before the next one's turn
ALTER TABLE comparisons RENAME COLUMN shrinkage TO winners_curse;  -- the challenger's median here over that of its screening

CREATE UNIQUE INDEX comparisons_by_iteration ON comparisons (iteration_id, case_name) WHERE iteration_id IS NOT NULL;
CREATE INDEX comparisons_by_session ON comparisons (session_id) WHERE session_id IS NOT NULL;

-- The sides of a comparison, the challenger at position 0. The table is new because a CHECK cannot be changed.
CREATE TABLE participants (
    comparison_id       INTEGER NOT NULL REFERENCES comparisons (id),
    position            INTEGER NOT NULL,  -- place in the order of a round
    role                TEXT NOT NULL CHECK (role IN ('challenger', 'control', 'incumbent', 'near_tie', 'baseline')),
                                           -- the control is the challenger again, with its own code and workspaces (A/A)
    name                TEXT NOT NULL,     -- the variant's family and hash, or the baseline's backend
    iteration_id        INTEGER REFERENCES iterations (id),  -- the iteration that measured it first; NULL if none did
    samples             INTEGER NOT NULL,  -- number of samples in the rounds that count
    launches_per_sample INTEGER NOT NULL,  -- executions in one graph replay; a sample is the replay's time over it
    median_ns           REAL NOT NULL,     -- median of the samples
    ci_lo_ns            REAL NOT NULL,     -- lower end of the median's 95% interval
    ci_hi_ns            REAL NOT NULL,     -- upper end
    raw_ns              BLOB NOT NULL,     -- the samples, little-endian f32
    groups_ns           BLOB NOT NULL,     -- the median of its group of samples in each round, little-endian f32
    ratio               REAL,              -- its time over the challenger's, paired within rounds: above 1, the challenger is
                                           -- the faster; NULL for the challenger itself and without two rounds
    ratio_lo            REAL,              -- lower end of the ratio's 95% interval
    ratio_hi            REAL,              -- upper end
    relative_l2         REAL,              -- error over the whole timed output; NULL if it was not checked, as of a baseline
    worst_row           REAL,              -- error of the worst row
    rows_checked        INTEGER,           -- rows compared with the float64 oracle
    rows                INTEGER,           -- rows of the output
    machine             TEXT,              -- JSON: clocks, power, temperature, throttling during its groups; NULL without NVML
    sm_clock_mhz        REAL GENERATED ALWAYS AS (machine ->> 'sm_clock_mhz'),    -- median clock of the SMs
    power_w             REAL GENERATED ALWAYS AS (machine ->> 'power_w'),         -- median power
    temperature_c       INTEGER GENERATED ALWAYS AS (machine ->> 'temperature_c'), -- highest temperature
    throttle            TEXT GENERATED ALWAYS AS (machine ->> 'throttle'),        -- JSON array: why it ran below its clocks
    energy_j            REAL,              -- energy of one execution; NULL if not measured
    PRIMARY KEY (comparison_id, position)
) STRICT, WITHOUT ROWID;

INSERT INTO participants (comparison_id, position, role, name, iteration_id, samples, launches_per_sample, median_ns, ci_lo_ns,
    ci_hi_ns, raw_ns, groups_ns, ratio, ratio_lo, ratio_hi, relative_l2, worst_row, rows_checked, rows, machine, energy_j)
SELECT contest_id, position, CASE role WHEN 'twin' THEN 'control' WHEN 'rival' THEN 'near_tie' ELSE role END, name,
    iteration_id, samples, launches_per_sample, median_ns, ci_lo_ns, ci_hi_ns, raw_ns, blocks_ns, ratio, ratio_lo, ratio_hi,
    relative_l2, worst_row, rows_checked, rows, machine, energy_j
FROM entrants;

DROP TABLE entrants;

-- Words that older rows hold as values.
UPDATE iterations SET outcome_check = CASE outcome_check WHEN 'surroundings' THEN 'guard_regions'
    WHEN 'fresh' THEN 'held_out_inputs' ELSE 'memoization' END
WHERE outcome_check IN ('surroundings', 'fresh', 'pace');

UPDATE iterations SET origin = json_set(origin, '$.kind', 'warm_start') WHERE origin ->> 'kind' = 'transfer';
UPDATE iterations SET proposer = 'fault-injection' WHERE proposer = 'drill';
UPDATE sessions SET proposer = 'fault-injection' WHERE proposer = 'drill';
UPDATE sessions SET config = json_set(config, '$.session.proposer', 'fault-injection')
WHERE config ->> '$.session.proposer' = 'drill';
UPDATE sessions SET config = json_remove(json_set(config, '$.benchmark.group_size', config -> '$.benchmark.block'),
                                         '$.benchmark.block')
WHERE json_type(config, '$.benchmark.block') IS NOT NULL;

CREATE TRIGGER finished_session_stays BEFORE UPDATE ON sessions WHEN OLD.status = 'finished'
BEGIN SELECT RAISE(ABORT, 'the session is finished'); END;

CREATE TRIGGER finished_iteration_stays BEFORE UPDATE ON iterations WHEN OLD.ended_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'the iteration is finished'); END;

CREATE TRIGGER finished_iteration_gains_no_comparison BEFORE INSERT ON comparisons
WHEN (SELECT ended_at FROM iterations WHERE id = NEW.iteration_id) IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'the iteration is finished'); END;

CREATE TRIGGER ended_session_gains_no_final BEFORE INSERT ON comparisons
WHEN (SELECT status FROM sessions WHERE id = NEW.session_id) IN ('finished', 'failed')
BEGIN SELECT RAISE(ABORT, 'the session has ended'); END;

CREATE TRIGGER comparison_stays BEFORE UPDATE ON comparisons
BEGIN SELECT RAISE(ABORT, 'a comparison never changes'); END;

CREATE TRIGGER comparison_is_kept BEFORE DELETE ON comparisons
BEGIN SELECT RAISE(ABORT, 'a comparison never changes'); END;

CREATE TRIGGER comparison_gains_no_participant BEFORE INSERT ON participants
WHEN (SELECT COUNT(*) FROM participants WHERE comparison_id = NEW.comparison_id)
     >= (SELECT participants FROM comparisons WHERE id = NEW.comparison_id)
BEGIN SELECT RAISE(ABORT, 'a comparison never changes'); END;

CREATE TRIGGER participant_stays BEFORE UPDATE ON participants
BEGIN SELECT RAISE(ABORT, 'a comparison never changes'); END;

CREATE TRIGGER participant_is_kept BEFORE DELETE ON participants
BEGIN SELECT RAISE(ABORT, 'a comparison never changes'); END;

CREATE TRIGGER journal_final AFTER INSERT ON comparisons WHEN NEW.session_id IS NOT NULL
BEGIN
    INSERT INTO journal (session_id, kind, iteration_id, case_name, detail)
    VALUES (NEW.session_id, 'final', NEW.winner_id, NEW.case_name, NEW.id);
END;
