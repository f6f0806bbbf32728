-- Indexes from which the figures about all iterations of a session are counted. A report of a session with a million
-- iterations reads a few thousand rows, and counts the rest here: see src/store/totals.rs.

DROP INDEX iterations_listed;
CREATE INDEX iterations_listed ON iterations (session_id, id, family, outcome, origin_kind, proposer, wall_s);
CREATE INDEX iterations_counted ON iterations (session_id, purpose, outcome, outcome_check, family, device_s, waiting_s, screening_s,
                                               acceptance_s, sanitizer_s, comparison_s);
CREATE INDEX hypotheses_counted ON hypotheses (relative_to, score, actual);

-- `optloop history` of a long session: by origin, and the largest speed-ups first.
CREATE INDEX iterations_by_origin ON iterations (origin_kind);
CREATE INDEX measurements_by_speedup ON measurements (speedup);
