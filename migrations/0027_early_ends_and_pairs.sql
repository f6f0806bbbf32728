-- Why a search ended before its budget was spent, as a fact beside the words for people.
ALTER TABLE sessions ADD COLUMN early_end TEXT CHECK (early_end IN ('nothing_left', 'too_little_left'));
UPDATE sessions SET early_end = 'nothing_left' WHERE stop_reason = 'there is nothing new left to try';
UPDATE sessions SET early_end = 'too_little_left' WHERE stop_reason LIKE '%(stop.min_gain)';

-- Which changes of one parameter pay off: a row for each change of a family's parameter, over all sessions with the same conditions. Each
-- two variants of a session that differ in one parameter count on each case on which both were timed, for whatever reason they were tried:
-- as a change from the one that was timed first to the other one.
DROP VIEW v_parameter_effects;
CREATE VIEW v_parameter_effects AS
WITH timed AS (
    SELECT s.id AS session_id, s.workload, e.device_name AS device, e.time_source, i.family, i.params, m.case_name, m.regime,
           MIN(i.id) AS first_id,
           MIN(COALESCE(m.screening_median_ns, m.best_ns)) AS ns
    FROM measurements m
    JOIN iterations i ON i.id = m.iteration_id
    JOIN sessions s ON s.id = i.session_id
    JOIN environments e ON e.id = s.environment_id
    WHERE m.best_ns IS NOT NULL AND m.verdict <> 'rejected' AND i.purpose <> 'experiment'
      AND NOT EXISTS (SELECT 1 FROM disqualifications d
                      WHERE d.iteration_id = m.iteration_id AND d.case_name = m.case_name)
    GROUP BY s.id, i.family, i.params, m.case_name, m.regime),
valued AS MATERIALIZED (
    SELECT t.*, p.key AS parameter, p.value AS value, json_remove(t.params, '$."' || p.key || '"') AS others
    FROM timed t, json_each(t.params) p),
tried AS (
    SELECT a.workload, a.device, a.time_source, a.family, a.parameter, a.value AS from_value, b.value AS to_value, a.ns / b.ns AS gain,
           ROW_NUMBER() OVER (same ORDER BY a.ns / b.ns) AS place, COUNT(*) OVER same AS tries
    FROM valued a
    JOIN valued b USING (session_id, family, case_name, regime, parameter, others)
    WHERE a.value <> b.value AND a.first_id < b.first_id
    WINDOW same AS (PARTITION BY a.workload, a.device, a.time_source, a.family, a.parameter, a.value, b.value))
SELECT workload,                              -- name of the workload
       device,                                -- product name of the device
       time_source,                           -- measured or modelled: the two are never compared
       family,                                -- name of the family
       parameter,                             -- name of the parameter
       from_value,                            -- its value before
       to_value,                              -- its value after
       tries,                                 -- pairs of variants that differ in nothing else, each counted on each case
       SUM(gain > 1.0) AS faster,             -- in how many of them the variant with the new value is faster
       AVG(gain) FILTER (WHERE place IN ((tries + 1) / 2, (tries + 2) / 2)) AS median_speedup,  -- the median of the time before divided by the time after
       MAX(gain) AS best_speedup              -- the largest such ratio
FROM tried
GROUP BY workload, device, time_source, family, parameter, from_value, to_value;
