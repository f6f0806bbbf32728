-- Rows of schema 6, the last before 0.2.0. They have every word that 0007_terms.sql changes.
INSERT INTO environments (hash, device, nvrtc, optloop, host)
VALUES ('h', '{"id":"cuda:0","name":"NVIDIA L4","sm":89,"arch":"sm_89","sms":58,"smem_limit_bytes":101376,
        "max_threads":1024,"l2_bytes":1,"memory_bytes":1,"driver":null,"time_source":"measured","peaks":{"f16_flops":1.0,
        "f32_flops":1.0,"memory_bytes_per_s":1.0,"l2_bytes_per_s":1.0,"launch_ns":1.0,"source":"s"}}',
        '13.0', '0.1.0', 'Linux');
INSERT INTO sessions (environment_id, workload, proposer, seed, budget_s, cases, asked, config, started_at)
VALUES (1, 'attention', 'drill', 1, 3600, '["a"]', '{"families":["tiled"],"dtype":"f16","cases":[]}',
        '{"session":{"proposer":"drill"},"benchmark":{"block":5,"min_speedup":1.01}}', '2026-11-22T00:00:00Z');
INSERT INTO iterations (session_id, ordinal, proposer, family, params, hash, source, cases, started_at, purpose, origin)
VALUES (1, 1, 'drill', 'tiled', '{}', 'x', 'source', '[]', '2026-11-22T00:00:01Z', 'confirmation',
        '{"kind":"transfer","case":"b"}'),
       (1, 2, 'drill', 'tiled', '{}', 'y', 'source', '[]', '2026-11-22T00:00:02Z', 'screening', '{"kind":"random"}'),
       (1, 3, 'drill', 'tiled', '{}', 'z', 'source', '[]', '2026-11-22T00:00:03Z', 'screening', '{"kind":"random"}'),
       (1, 4, 'drill', 'tiled', '{}', 'u', 'source', '[]', '2026-11-22T00:00:04Z', 'screening', '{"kind":"random"}');
INSERT INTO hypotheses (iteration_id, claim, evidence, case_name, predicted_lo, predicted_hi)
SELECT id, 'claim', 'evidence', 'a', 1.0, 2.0 FROM iterations WHERE session_id = 1;
INSERT INTO measurements (iteration_id, case_name, verdict) VALUES (1, 'a', 'start');
INSERT INTO contests (id, iteration_id, session_id, winner_id, case_name, conditions, entrants, block, rounds,
                      discarded_rounds, noise, shrinkage, others)
SELECT id, iif(id = 1, 1, NULL), iif(id = 2, 1, NULL), iif(id = 2, 1, NULL), 'a',
       '{"workload":"attention","case":"a","dims":{},"dtype":"f16","device":"NVIDIA L4","regime":"warm",
         "time_source":"measured"}', 5, 5, 1, 0, 0.0, 1.25, '[]'
FROM (SELECT 1 AS id UNION ALL SELECT 2);
INSERT INTO entrants (contest_id, position, role, name, iteration_id, samples, launches_per_sample, median_ns, ci_lo_ns,
                      ci_hi_ns, raw_ns, blocks_ns)
SELECT contest.id, role.key, role.value, 'tiled', 1, 1, 1, 9.0, 9.0, 9.0, x'00001041', x'00001041'
FROM contests contest, json_each('["challenger","twin","incumbent","rival","baseline"]') role;
UPDATE iterations SET ended_at = '2026-11-22T00:00:05Z', outcome = 'measured' WHERE id = 1;
UPDATE iterations SET ended_at = '2026-11-22T00:00:05Z', outcome = 'cheated', outcome_case = 'a',
    outcome_message = 'm', outcome_check = json_extract('["pace","fresh","surroundings"]', '$[' || (id - 2) || ']') WHERE id > 1;
UPDATE sessions SET status = 'finished', ended_at = '2026-11-22T00:00:06Z' WHERE id = 1;
