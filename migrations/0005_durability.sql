-- What a session needs to go on after its process is gone, and which check caught a variant.

ALTER TABLE iterations ADD COLUMN outcome_check TEXT;  -- the check that caught a wrong or cheating variant; NULL else, and
                                                       -- for those recorded before checks had names

-- Launch plans, each once: many variants and cases share one.
CREATE TABLE plans (
    hash TEXT PRIMARY KEY,  -- BLAKE3 of `plan`
    plan TEXT NOT NULL      -- JSON: the launch plan with every number filled in
) STRICT, WITHOUT ROWID;

ALTER TABLE measurements ADD COLUMN plan_hash TEXT REFERENCES plans (hash);  -- how the variant was launched on the case; NULL
                                                                             -- for those recorded before plans were kept

ALTER TABLE sessions ADD COLUMN asked TEXT;  -- JSON: the families to search, the dtype and the cases with their dimensions; NULL
                                             -- for those recorded before sessions could be resumed

-- When a session went on after it had ended without being finished: a row each time.
CREATE TABLE resumptions (
    session_id INTEGER NOT NULL REFERENCES sessions (id),
    number     INTEGER NOT NULL,  -- 1 for the first of its session
    resumed_at TEXT NOT NULL,     -- instant; clocks jump, so nothing is worked out from it
    used_s     REAL NOT NULL,     -- wall time that was used until then: what is left of the budget starts from here
    begun      INTEGER NOT NULL,  -- iterations begun until then
    PRIMARY KEY (session_id, number)
) STRICT, WITHOUT ROWID;

-- A session that failed may go on when what failed is mended; one that finished has nothing left to do.
DROP TRIGGER ended_session_stays;
CREATE TRIGGER finished_session_stays BEFORE UPDATE ON sessions WHEN OLD.status = 'finished'
BEGIN SELECT RAISE(ABORT, 'the session is finished'); END;

CREATE TRIGGER plan_stays BEFORE UPDATE ON plans
BEGIN SELECT RAISE(ABORT, 'a launch plan never changes'); END;

CREATE TRIGGER plan_is_kept BEFORE DELETE ON plans
BEGIN SELECT RAISE(ABORT, 'a launch plan never changes'); END;

CREATE TRIGGER resumption_stays BEFORE UPDATE ON resumptions
BEGIN SELECT RAISE(ABORT, 'a resumption never changes'); END;

-- Variants that had won or tied on a case and then failed there, on inputs that they had not met: their verdict counts as
-- `rejected` from then on, whatever their measurement says, which never changes.
CREATE TABLE disqualifications (
    iteration_id    INTEGER NOT NULL,
    case_name       TEXT NOT NULL,
    reason          TEXT NOT NULL,  -- what it failed with
    disqualified_at TEXT NOT NULL,  -- instant
    PRIMARY KEY (iteration_id, case_name),
    FOREIGN KEY (iteration_id, case_name) REFERENCES measurements (iteration_id, case_name)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER disqualification_stays BEFORE UPDATE ON disqualifications
BEGIN SELECT RAISE(ABORT, 'a disqualification never changes'); END;

CREATE TRIGGER disqualification_is_kept BEFORE DELETE ON disqualifications
BEGIN SELECT RAISE(ABORT, 'a disqualification never changes'); END;
