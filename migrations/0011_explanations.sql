-- What a virtual GPU counted to explain a measured time. Counts of modelled times are in `measurements.profile`.

CREATE TABLE explanations (
    iteration_id INTEGER NOT NULL,
    case_name    TEXT NOT NULL,
    profile      TEXT NOT NULL,  -- JSON: the counts of each launch, and its modelled time without each cause of lost time
    explained_at TEXT NOT NULL,  -- instant
    PRIMARY KEY (iteration_id, case_name),
    FOREIGN KEY (iteration_id, case_name) REFERENCES measurements (iteration_id, case_name)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER explanation_stays BEFORE UPDATE ON explanations
BEGIN SELECT RAISE(ABORT, 'an explanation never changes'); END;
