-- What a call probably cost whose cost is not known: a stream that was cut is estimated from the bytes that came.
ALTER TABLE model_calls ADD COLUMN estimate_micro_usd INTEGER;  -- millionths of a US dollar; NULL if the cost is known, or nothing was counted
