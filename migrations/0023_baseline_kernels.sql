-- Which kernels a call of a baseline launches.
-- To see how many blocks the fastest baseline of each case has:
--   SELECT case_name, name, k.value ->> 'name' AS kernel, k.value ->> 'grid' AS grid
--   FROM baselines b, json_each(b.kernels) k ORDER BY case_name, median_ns;

ALTER TABLE baselines ADD COLUMN kernels TEXT;  -- JSON array: the kernels of a call; NULL if they are not known
