-- Claims that can fail: what is claimed, by which mechanism, on what evidence, with a median and an 80% range of the
-- speed-up over a named earlier time. Where nothing is predicted, there is no claim. Claims are scored by whether the
-- range holds the outcome and by a proper score, the CRPS, beside that of the forecast "no change". Whether the variant
-- was faster is a column of its own. To ask which kinds, mechanisms or parameters pay:
--   SELECT kind, COUNT(actual), SUM(faster), AVG(score = 'in_range'), AVG(crps), AVG(crps_no_change)
--   FROM hypotheses GROUP BY kind;
--   SELECT i.family, p.parameter, p.from_value, p.to_value, COUNT(h.actual), SUM(h.faster)
--   FROM hypotheses h JOIN iterations i ON i.id = h.iteration_id JOIN changed_parameters p USING (iteration_id)
--   GROUP BY 1, 2, 3, 4 ORDER BY SUM(h.faster) DESC;

-- The parameters that a move or coverage sampling changed.
CREATE TABLE changed_parameters (
    iteration_id INTEGER NOT NULL REFERENCES iterations (id),
    parameter    TEXT NOT NULL,     -- its name
    from_value   INTEGER NOT NULL,  -- its value in the iteration that the claim is relative to
    to_value     INTEGER NOT NULL,  -- its new value
    PRIMARY KEY (iteration_id, parameter)
) STRICT, WITHOUT ROWID;

INSERT INTO changed_parameters (iteration_id, parameter, from_value, to_value)
SELECT i.id, changed.value ->> 'parameter', changed.value ->> 'from', changed.value ->> 'to'
FROM iterations i, json_each(i.origin, '$.changes') AS changed
WHERE i.origin ->> 'kind' IN ('move', 'coverage')
ON CONFLICT DO NOTHING;

-- The table is new because a CHECK and a NOT NULL cannot be changed.
CREATE TABLE hypotheses_with_claims (
    iteration_id     INTEGER PRIMARY KEY REFERENCES iterations (id),
    claim            TEXT NOT NULL,  -- what is tried, and what is expected of it
    evidence         TEXT NOT NULL,  -- what the claim rests on
    kind             TEXT NOT NULL,  -- the kind of iterations.origin, or `confirmation`
    mechanism        TEXT NOT NULL,  -- how it is expected to act, such as `tile_size`; `unspecified` if not known
    case_name        TEXT NOT NULL,  -- the case on which it is tested
    predicted_median REAL,           -- median of the predicted speed-up; NULL without a claim, and for older ranges
    predicted_lo     REAL,           -- lower end of the range: the 10% quantile. Without a median, of a range that an
                                     -- older optloop recorded without saying how probable it is; NULL without a claim
    predicted_hi     REAL,           -- upper end: the 90% quantile
    strength         TEXT CHECK (strength IN ('prior', 'weak', 'moderate', 'strong')),
                                     -- how much evidence there was; NULL without a claim
    model_mean       REAL,           -- the model's expectation of ln(speed-up), before calibration; NULL without one
    model_sd         REAL,           -- its standard deviation
    relative_to      INTEGER REFERENCES iterations (id),  -- whose time the speed-up is over; NULL if not an iteration's
    reference        TEXT CHECK (reference IN ('initial_kernel', 'incumbent', 'baseline', 'iteration')),
                                     -- what `actual` is over; NULL for claims from before this was kept
    actual           REAL,           -- the speed-up found; NULL until then, and if it was not tested
    score            TEXT CHECK (score IN ('in_range', 'above', 'below', 'untested', 'no_claim')),
                                     -- where `actual` is, relative to the range; NULL until the iteration ends
    crps             REAL,           -- continuous ranked probability score of the prediction; NULL without both
    crps_no_change   REAL,           -- that of the forecast "no change", |ln(actual)|; NULL where crps is
    faster           INTEGER GENERATED ALWAYS AS (actual > 1.0) VIRTUAL,  -- whether it was faster than its reference
    direction        TEXT GENERATED ALWAYS AS
                     (CASE WHEN predicted_median IS NULL THEN NULL WHEN predicted_lo > 1.0 THEN 'faster'
                           WHEN predicted_hi < 1.0 THEN 'slower' ELSE 'either' END) VIRTUAL
                                     -- the direction in which the time is claimed to change
) STRICT;

-- Older ranges stay as they were recorded, and are told from the new ones by their missing median. Only moves, coverage
-- samples, warm starts and family defaults predicted anything that could be scored. What the others recorded as a range
-- (a winner measured again, a random configuration, a confirmation) was no prediction.
INSERT INTO hypotheses_with_claims (iteration_id, claim, evidence, kind, mechanism, case_name, predicted_lo,
                                    predicted_hi, strength, relative_to, reference, actual, score)
SELECT iteration_id, claim, evidence, kind, 'unspecified', case_name, IIF(predicts, predicted_lo, NULL),
       IIF(predicts, predicted_hi, NULL), IIF(predicts, 'prior', NULL), relative_to, reference, actual,
       CASE WHEN score IS NULL THEN NULL WHEN NOT predicts THEN 'no_claim' WHEN score = 'confirmed' THEN 'in_range'
            WHEN score = 'exceeded' THEN 'above' WHEN score = 'refuted' THEN 'below' ELSE score END
FROM (SELECT *, kind IN ('move', 'coverage', 'warm_start', 'family_default', 'unknown') AS predicts
      FROM (SELECT h.*, IIF(i.purpose = 'confirmation', 'confirmation', i.origin ->> 'kind') AS kind
            FROM hypotheses h JOIN iterations i ON i.id = h.iteration_id));

DROP TABLE hypotheses;
ALTER TABLE hypotheses_with_claims RENAME TO hypotheses;

CREATE TRIGGER claim_stays BEFORE UPDATE OF claim, evidence, kind, mechanism, case_name, predicted_median, predicted_lo,
    predicted_hi, strength, model_mean, model_sd, relative_to, reference
ON hypotheses
BEGIN SELECT RAISE(ABORT, 'a claim never changes after it was made'); END;

CREATE TRIGGER score_stays BEFORE UPDATE ON hypotheses WHEN OLD.score IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'the hypothesis is already scored'); END;

CREATE TRIGGER changed_parameter_stays BEFORE UPDATE ON changed_parameters
BEGIN SELECT RAISE(ABORT, 'a claim never changes after it was made'); END;

CREATE TRIGGER changed_parameter_is_kept BEFORE DELETE ON changed_parameters
BEGIN SELECT RAISE(ABORT, 'a claim never changes after it was made'); END;
