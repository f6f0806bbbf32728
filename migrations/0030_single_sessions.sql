-- What `optloop bench` and `optloop check` measured by hand is on record, too: in sessions of their own, which search nothing.
ALTER TABLE sessions ADD COLUMN kind TEXT NOT NULL DEFAULT 'search' CHECK (kind IN ('search', 'single'));  -- lists show only `search` unless asked

DROP VIEW v_sessions;

-- What each session was, what it found and what it cost: one row per session.
CREATE VIEW v_sessions AS
SELECT s.id AS session_id,                    -- number of the session
       s.workload,                            -- name of the workload
       e.device_name AS device,               -- product name of the device
       e.time_source,                         -- measured, modelled or recorded: times of two sources are never compared
       e.graphs,                              -- state of the graphs: times of two states are never compared
       e.optloop,                             -- version of optloop
       s.kind,                                -- search, or single: measured by hand
       s.proposer,                            -- name of the proposer
       s.status,                              -- running, finished, interrupted or failed
       s.started_at,                          -- instant
       s.wall_s,                              -- wall time in seconds; NULL while running
       (SELECT COUNT(i.outcome) FROM iterations i WHERE i.session_id = s.id) AS iterations,  -- iterations that ended
       (SELECT TOTAL(c.seconds) FROM costs c WHERE c.session_id = s.id AND c.kind = 'gpu') AS gpu_s,   -- device time held
       (SELECT TOTAL(c.usd) FROM costs c WHERE c.session_id = s.id AND c.kind = 'gpu') AS gpu_usd,     -- its cost
       (SELECT TOTAL(c.usd) FROM costs c WHERE c.session_id = s.id AND c.kind = 'llm') AS models_usd,  -- language models
       (SELECT TOTAL(c.usd) FROM costs c WHERE c.session_id = s.id) AS usd                             -- both
FROM sessions s JOIN environments e ON e.id = s.environment_id;
