-- Views for people that ask the record themselves, with any SQLite client. docs/history.md asks twelve questions of them.
-- optloop's own verbs do not read them. A later migration that changes a table drops the views that name it first.

-- Indexes for a store of a million iterations. A row of `iterations` holds a source of some kilobytes before the columns that
-- lists are made of, so lists are made from indexes, and rows are read for one page only.
CREATE INDEX iterations_listed ON iterations (session_id, id, family, outcome, origin_kind, proposer);
CREATE INDEX iterations_facts ON iterations (id, session_id, purpose, origin_kind);
CREATE INDEX iterations_by_start ON iterations (started_at);
CREATE INDEX iterations_unfinished ON iterations (session_id) WHERE ended_at IS NULL;
CREATE INDEX iterations_by_call ON iterations (model_call_id) WHERE model_call_id IS NOT NULL;
CREATE INDEX measurements_listed ON measurements (case_name, best_ns, verdict, speedup);
CREATE INDEX measurements_by_time ON measurements (best_ns);
CREATE INDEX measurements_won ON measurements (verdict, iteration_id, case_name, best_ns) WHERE verdict IN ('start', 'improved');
CREATE INDEX commits_by_commit ON commits (commit_id, case_name);
CREATE INDEX sessions_running ON sessions (id) WHERE status = 'running';
DROP INDEX costs_by_session;
CREATE INDEX costs_by_session ON costs (session_id, iteration_id, kind, seconds, usd);
DROP INDEX costs_by_iteration;
CREATE INDEX costs_by_iteration ON costs (iteration_id, kind, seconds, usd);

-- What each session was, what it found and what it cost: one row per session.
CREATE VIEW v_sessions AS
SELECT s.id AS session_id,                    -- number of the session
       s.workload,                            -- name of the workload
       e.device_name AS device,               -- product name of the device
       e.time_source,                         -- measured or modelled: the two are never compared
       e.graphs,                              -- state of the graphs: times of two states are never compared
       e.optloop,                             -- version of optloop
       s.proposer,                            -- name of the proposer
       s.status,                              -- running, finished, interrupted or failed
       s.started_at,                          -- instant
       s.wall_s,                              -- wall time in seconds; NULL while running
       (SELECT COUNT(*) FROM iterations i WHERE i.session_id = s.id) AS iterations,  -- number of iterations
       (SELECT TOTAL(c.seconds) FROM costs c WHERE c.session_id = s.id AND c.kind = 'gpu') AS gpu_s,   -- device time held
       (SELECT TOTAL(c.usd) FROM costs c WHERE c.session_id = s.id AND c.kind = 'gpu') AS gpu_usd,     -- its cost
       (SELECT TOTAL(c.usd) FROM costs c WHERE c.session_id = s.id AND c.kind = 'llm') AS models_usd,  -- language models
       (SELECT TOTAL(c.usd) FROM costs c WHERE c.session_id = s.id) AS usd                             -- both
FROM sessions s JOIN environments e ON e.id = s.environment_id;

-- What was tried: a row for every case that an iteration reached, and one for an iteration that reached none.
CREATE VIEW v_iterations AS
SELECT i.id AS iteration_id,                  -- number of the iteration
       i.session_id,                          -- number of its session
       s.workload,                            -- name of the workload
       e.device_name AS device,               -- product name of the device
       e.time_source,                         -- measured or modelled: the two are never compared
       i.purpose,                             -- initial, remeasurement, screening, confirmation or experiment
       i.origin_kind AS origin,               -- where the configuration comes from: move, random, model, ...
       i.proposer,                            -- name of the proposer
       i.family,                              -- the variant's family
       i.params,                              -- JSON object: the variant's parameters
       i.hash AS variant,                     -- the variant's name
       m.case_name,                           -- name of the case; NULL if the iteration reached none
       i.outcome,                             -- what the device reported; NULL while unfinished
       CASE WHEN d.reason IS NOT NULL THEN 'rejected' ELSE m.verdict END AS verdict,  -- the decision as it stands now
       m.best_ns / 1000.0 AS time_us,         -- median time in microseconds: the confirmed one, if there is one
       m.confirmation_median_ns IS NOT NULL AS confirmed,  -- 1 if that time is confirmed
       m.speedup,                             -- the incumbent's time over this one
       m.relative_l2,                         -- error over the whole output, relative to float64
       h.claim,                               -- what was expected, and why
       h.mechanism,                           -- how it was expected to act
       h.actual,                              -- the speed-up over what the claim names, on its case
       h.score,                               -- in_range, above, below, untested or no_claim
       c.commit_id,                           -- the commit of the winner; NULL if none
       i.started_at,                          -- instant
       i.wall_s,                              -- wall time of the iteration in seconds, over all its cases
       i.device_s,                            -- device time of the iteration in seconds, over all its cases
       (SELECT TOTAL(k.usd) FROM costs k WHERE k.iteration_id = i.id) AS usd  -- cost of the iteration, over all its cases
FROM iterations i
JOIN sessions s ON s.id = i.session_id
JOIN environments e ON e.id = s.environment_id
JOIN hypotheses h ON h.iteration_id = i.id
LEFT JOIN measurements m ON m.iteration_id = i.id
LEFT JOIN disqualifications d ON d.iteration_id = m.iteration_id AND d.case_name = m.case_name
LEFT JOIN commits c ON c.iteration_id = m.iteration_id AND c.case_name = m.case_name;

-- The wins of every session, as `optloop sessions` counts them: a row for each case of each improvement. A committed winner that was measured again is not a win, and neither is a variant that it beat later.
CREATE VIEW v_gains AS
WITH found AS MATERIALIZED (
    SELECT i.session_id, i.id, i.purpose, i.family, i.params, i.origin_kind, m.case_name, m.verdict, m.best_ns, m.speedup,
           COALESCE(i.origin_kind = 'committed_winner'
                    AND (COALESCE(json_array_length(i.origin, '$.cases'), 0) = 0
                         OR EXISTS (SELECT 1 FROM json_each(i.origin, '$.cases') WHERE value = m.case_name)),
                    0) AS remeasured
    FROM measurements m JOIN iterations i ON i.id = m.iteration_id
    WHERE m.verdict IN ('start', 'improved')
      AND NOT EXISTS (SELECT 1 FROM disqualifications d
                      WHERE d.iteration_id = m.iteration_id AND d.case_name = m.case_name)),
wins AS MATERIALIZED (
    SELECT * FROM found w WHERE verdict = 'improved' AND NOT remeasured
      AND NOT (purpose = 'remeasurement'
               AND EXISTS (SELECT 1 FROM found k
                           WHERE k.session_id = w.session_id AND k.case_name = w.case_name
                             AND k.remeasured AND k.verdict = 'improved' AND k.id > w.id))),
spaced AS MATERIALIZED (
    SELECT w.*, COUNT(*) OVER (PARTITION BY id) AS cases,
           COALESCE((SELECT MAX(b.id) FROM wins b WHERE b.session_id = w.session_id AND b.id < w.id), 0) AS before
    FROM wins w)
SELECT g.session_id,                          -- number of the session
       s.workload,                            -- name of the workload
       e.device_name AS device,               -- product name of the device
       e.time_source,                         -- measured or modelled: the two are never compared
       g.case_name,                           -- name of the case
       g.id AS iteration_id,                  -- the iteration that won
       g.family,                              -- family of the winner
       g.params,                              -- JSON object: its parameters
       g.origin_kind AS origin,               -- where its configuration comes from
       h.mechanism,                           -- how it was expected to act
       h.claim,                               -- what was expected, and why
       g.best_ns / 1000.0 AS time_us,         -- its median time in microseconds
       g.speedup,                             -- the incumbent's time over it
       (SELECT f.best_ns FROM found f
        WHERE f.session_id = g.session_id AND f.case_name = g.case_name AND f.verdict = 'start'
        ORDER BY f.id LIMIT 1) / g.best_ns AS over_initial,  -- the first correct time of the case in the session over it
       (SELECT COUNT(*) FROM iterations j
        WHERE j.session_id = g.session_id AND j.id > g.before AND j.id <= g.id) AS iterations,  -- since the gain before it
       (SELECT TOTAL(j.wall_s) FROM iterations j
        WHERE j.session_id = g.session_id AND j.id > g.before AND j.id <= g.id) / g.cases AS wall_s,  -- their time in
                                              -- seconds, in equal shares for the cases that the iteration improved
       (SELECT TOTAL(c.usd) FROM costs c
        WHERE c.session_id = g.session_id AND c.iteration_id > g.before AND c.iteration_id <= g.id) / g.cases AS usd,  -- their
                                              -- cost in US dollars, in the same shares
       k.commit_id                            -- the commit of the winner; NULL if none
FROM spaced g
JOIN sessions s ON s.id = g.session_id
JOIN environments e ON e.id = s.environment_id
JOIN hypotheses h ON h.iteration_id = g.id
LEFT JOIN commits k ON k.iteration_id = g.id AND k.case_name = g.case_name;

-- How families compare: the best correct time of each on each case, over all sessions with the same conditions.
CREATE VIEW v_families AS
WITH best AS (
    SELECT s.workload, e.device_name AS device, e.time_source, e.graphs, m.case_name, m.regime, i.family, i.id AS iteration_id,
           COUNT(*) AS tries, MIN(m.best_ns) AS ns
    FROM measurements m
    JOIN iterations i ON i.id = m.iteration_id
    JOIN sessions s ON s.id = i.session_id
    JOIN environments e ON e.id = s.environment_id
    WHERE m.best_ns IS NOT NULL AND m.verdict <> 'rejected' AND i.purpose <> 'experiment'
      AND NOT EXISTS (SELECT 1 FROM disqualifications d
                      WHERE d.iteration_id = m.iteration_id AND d.case_name = m.case_name)
    GROUP BY s.workload, e.device_name, e.time_source, e.graphs, m.case_name, m.regime, i.family)
SELECT workload,                              -- name of the workload
       device,                                -- product name of the device
       time_source,                           -- measured or modelled: the two are never compared
       graphs,                                -- state of the graphs
       case_name,                             -- name of the case
       regime,                                -- cache regime
       family,                                -- name of the family
       tries,                                 -- correct times of the family on the case
       iteration_id,                          -- the iteration of its best time
       ns / 1000.0 AS best_us,                -- its best median time in microseconds
       ns / MIN(ns) OVER same AS over_best,   -- that time over the best time of any family: 1 for the fastest family
       RANK() OVER (same ORDER BY ns) AS place  -- 1 for the fastest family
FROM best
WINDOW same AS (PARTITION BY workload, device, time_source, graphs, case_name, regime);

-- Which changes of one parameter pay off: a row for each change of a family's parameter, over all sessions with the same conditions. A change of several parameters does not say which of them acted, so it does not count.
CREATE VIEW v_parameter_effects AS
WITH alone AS (
    SELECT iteration_id, MIN(parameter) AS parameter, MIN(from_value) AS from_value, MIN(to_value) AS to_value
    FROM changed_parameters GROUP BY iteration_id HAVING COUNT(*) = 1),
tried AS (
    SELECT s.workload, e.device_name AS device, e.time_source, i.family, a.parameter, a.from_value, a.to_value, h.actual,
           ROW_NUMBER() OVER (same ORDER BY h.actual) AS place, COUNT(*) OVER same AS tries
    FROM alone a
    JOIN hypotheses h ON h.iteration_id = a.iteration_id
    JOIN iterations i ON i.id = a.iteration_id
    JOIN sessions s ON s.id = i.session_id
    JOIN environments e ON e.id = s.environment_id
    WHERE h.actual IS NOT NULL AND h.kind <> 'confirmation'
    WINDOW same AS (PARTITION BY s.workload, e.device_name, e.time_source, i.family, a.parameter, a.from_value, a.to_value))
SELECT workload,                              -- name of the workload
       device,                                -- product name of the device
       time_source,                           -- measured or modelled: the two are never compared
       family,                                -- name of the family
       parameter,                             -- name of the parameter
       from_value,                            -- its value before
       to_value,                              -- its value after
       tries,                                 -- how often the change was timed
       SUM(actual > 1.0) AS faster,           -- how often the variant was faster than before
       AVG(actual) FILTER (WHERE place IN ((tries + 1) / 2, (tries + 2) / 2)) AS median_speedup,  -- the median of the time before divided by the time after
       MAX(actual) AS best_speedup            -- the largest such ratio
FROM tried
GROUP BY workload, device, time_source, family, parameter, from_value, to_value;

-- What was predicted, and what came true: a row for each claim with a range.
CREATE VIEW v_predictions AS
SELECT h.iteration_id,                        -- number of the iteration
       i.session_id,                          -- number of its session
       s.workload,                            -- name of the workload
       e.time_source,                         -- measured or modelled
       h.case_name,                           -- the case on which the claim is tested
       i.family,                              -- the variant's family
       h.kind,                                -- where the configuration comes from
       h.mechanism,                           -- how it is expected to act
       h.claim,                               -- what is expected, and why
       h.evidence,                            -- what the claim rests on
       h.strength,                            -- how much evidence there was: prior, weak, moderate or strong
       h.reference,                           -- what the speed-up is over
       h.predicted_lo,                        -- 10% quantile of the predicted speed-up
       h.predicted_median,                    -- its median; NULL for older ranges
       h.predicted_hi,                        -- 90% quantile
       h.actual,                              -- the speed-up found; NULL if it was not tested
       h.score,                               -- in_range, above, below or untested
       h.faster,                              -- 1 if the variant was faster than the reference
       h.crps,                                -- score of the prediction: smaller is better
       h.crps_no_change                       -- score of the forecast "no change"
FROM hypotheses h
JOIN iterations i ON i.id = h.iteration_id
JOIN sessions s ON s.id = i.session_id
JOIN environments e ON e.id = s.environment_id
WHERE h.predicted_lo IS NOT NULL;

-- What did not count, and why: iterations without a result, and variants that failed a check after they were timed.
CREATE VIEW v_rejections AS
SELECT i.id AS iteration_id,                  -- number of the iteration
       i.session_id,                          -- number of its session
       s.workload,                            -- name of the workload
       i.family,                              -- the variant's family
       i.params,                              -- JSON object: its parameters
       i.outcome_case AS case_name,           -- the case on which it failed; NULL if it failed before reaching one
       i.outcome,                             -- rejected_by_compiler, wrong, crashed, timed_out, cheated or pruned
       i.outcome_check AS failed_check,       -- the check that caught it; NULL if none did
       i.outcome_message AS reason            -- why, in a sentence
FROM iterations i JOIN sessions s ON s.id = i.session_id
WHERE i.outcome <> 'measured'
UNION ALL
SELECT i.id, i.session_id, s.workload, i.family, i.params, d.case_name, 'disqualified', NULL, d.reason
FROM disqualifications d JOIN iterations i ON i.id = d.iteration_id JOIN sessions s ON s.id = i.session_id;

-- Where the time of a session went: a row for each kind of work. The rows of a finished session add up to its wall time.
CREATE VIEW v_phases AS
WITH of_iterations AS MATERIALIZED (
    SELECT session_id, TOTAL(waiting_s) AS waiting_s, TOTAL(screening_s) AS screening_s, TOTAL(acceptance_s) AS acceptance_s,
           TOTAL(sanitizer_s) AS sanitizer_s, TOTAL(comparison_s) AS comparison_s
    FROM iterations GROUP BY session_id),
parts AS MATERIALIZED (
    SELECT session_id, 'waiting for a compilation' AS phase, waiting_s AS seconds FROM of_iterations
    UNION ALL SELECT session_id, 'screening', screening_s FROM of_iterations
    UNION ALL SELECT session_id, 'acceptance checks', acceptance_s FROM of_iterations
    UNION ALL SELECT session_id, 'sanitizer', sanitizer_s FROM of_iterations
    UNION ALL SELECT session_id, 'comparisons', comparison_s FROM of_iterations
    UNION ALL SELECT session_id, CASE phase WHEN 'final' THEN 'finals' ELSE phase END, TOTAL(wall_s) FROM phases
              GROUP BY session_id, phase),
counted AS (
    SELECT session_id, phase, seconds FROM parts
    UNION ALL
    SELECT s.id, 'everything else', s.wall_s - (SELECT TOTAL(p.seconds) FROM parts p WHERE p.session_id = s.id)
    FROM sessions s WHERE s.wall_s IS NOT NULL)
SELECT session_id,                            -- number of the session
       phase,                                 -- kind of work
       seconds,                               -- wall time in seconds
       seconds / SUM(seconds) OVER (PARTITION BY session_id) AS share  -- of the session's time
FROM counted WHERE seconds > 0;

-- What each session cost and returned, with running totals: the ledger.
CREATE VIEW v_cost AS
WITH wins AS MATERIALIZED (SELECT session_id, COUNT(*) AS gains, MAX(over_initial) AS best FROM v_gains GROUP BY session_id)
SELECT s.session_id,                          -- number of the session
       s.workload,                            -- name of the workload
       s.device,                              -- product name of the device
       s.time_source,                         -- measured or modelled
       s.started_at,                          -- instant
       s.iterations,                          -- number of iterations
       s.gpu_s,                               -- seconds for which the device was held
       s.gpu_usd,                             -- its cost in US dollars
       s.models_usd,                          -- cost of language models
       s.usd,                                 -- both
       COALESCE(w.gains, 0) AS gains,         -- wins: a case that an iteration improved
       s.usd / w.gains AS usd_per_gain,       -- cost of a win; NULL without one
       w.best AS best_over_initial,           -- the largest gain over a case's first correct time; NULL without a win
       SUM(s.usd) OVER so_far AS total_usd,   -- cost of all sessions until then
       SUM(COALESCE(w.gains, 0)) OVER so_far AS total_gains  -- wins of all sessions until then
FROM v_sessions s LEFT JOIN wins w ON w.session_id = s.session_id
WINDOW so_far AS (ORDER BY s.session_id);

-- Calls to language models: what they cost, and what came of them.
CREATE VIEW v_calls AS
SELECT c.id AS call_id,                       -- number of the call
       c.session_id,                          -- number of its session
       s.workload,                            -- name of the workload
       c.purpose,                             -- plan, code or repair
       c.model,                               -- the provider's name of the model
       c.status,                              -- answered, failed or lost; NULL while it runs
       c.error_kind,                          -- the kind of failure; NULL if it did not fail
       c.input_tokens,                        -- input outside the provider's cache; NULL if unknown
       c.cached_tokens,                       -- input read from the cache
       c.output_tokens,                       -- output
       c.cost_micro_usd / 1e6 AS usd,         -- cost in US dollars; the most that it could be, if cost_is_known is 0
       c.cost_is_known,                       -- 0 if the answer never came, or the provider's counts cannot be right
       c.latency_ms / 1000.0 AS latency_s,    -- seconds from the first attempt to the end of the answer
       (SELECT COUNT(*) FROM iterations i WHERE i.model_call_id = c.id) AS variants,  -- iterations that tried its proposals
       (SELECT COUNT(*) FROM iterations i JOIN measurements m ON m.iteration_id = i.id
        WHERE i.model_call_id = c.id AND m.verdict = 'improved'
          AND NOT EXISTS (SELECT 1 FROM disqualifications d
                          WHERE d.iteration_id = m.iteration_id AND d.case_name = m.case_name)) AS gains  -- cases that
                                              -- these iterations improved
FROM model_calls c JOIN sessions s ON s.id = c.session_id;

-- Times sampled alternately in one run: a row for each participant besides the challenger. Only these ratios are paired.
CREATE VIEW v_comparisons AS
SELECT c.id AS comparison_id,                 -- number of the comparison
       COALESCE(c.session_id, i.session_id) AS session_id,  -- number of its session
       c.purpose,                             -- confirmation or final
       c.case_name,                           -- name of the case
       c.regime,                              -- cache regime
       a.iteration_id AS challenger,          -- the iteration whose variant is the challenger
       a.name AS challenger_name,             -- its family and hash
       a.median_ns / 1000.0 AS challenger_us, -- its median time in microseconds
       p.role,                                -- incumbent, near_tie, baseline, or control: a second copy of the challenger (A/A)
       p.name,                                -- family and hash of the variant, or the baseline's backend
       p.median_ns / 1000.0 AS time_us,       -- its median time in microseconds
       p.ratio,                               -- its time over the challenger's, paired: above 1, the challenger is faster
       p.ratio_lo,                            -- lower end of the 95% interval
       p.ratio_hi,                            -- upper end
       c.noise                                -- how far from 1 the A/A control reaches: smaller differences do not count
FROM comparisons c
JOIN participants a ON a.comparison_id = c.id AND a.position = 0
JOIN participants p ON p.comparison_id = c.id AND p.position > 0
LEFT JOIN iterations i ON i.id = c.iteration_id;
