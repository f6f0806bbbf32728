-- What a claim about a new family predicts once the search has tuned its parameters.
ALTER TABLE hypotheses ADD COLUMN tuned_lo REAL;  -- lower end of that range: the 10% quantile; NULL if nothing is predicted
ALTER TABLE hypotheses ADD COLUMN tuned_hi REAL;  -- upper end: the 90% quantile
