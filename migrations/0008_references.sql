-- What a claim compares its variant with, so that it is scored against that and nothing else.

ALTER TABLE hypotheses ADD COLUMN reference TEXT
    CHECK (reference IN ('initial_kernel', 'incumbent', 'baseline', 'iteration'));  -- what `actual` is over; NULL for claims from
                                                                                    -- before this was kept: the iteration of
                                                                                    -- `relative_to`, else the incumbent

DROP TRIGGER claim_stays;
CREATE TRIGGER claim_stays BEFORE UPDATE OF claim, evidence, case_name, predicted_lo, predicted_hi, relative_to, reference
ON hypotheses
BEGIN SELECT RAISE(ABORT, 'a claim never changes after it was made'); END;
