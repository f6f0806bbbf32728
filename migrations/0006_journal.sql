-- Facts as columns, and the order in which they were recorded. A session knows what is in its journal, in that order: the
-- live one and one that is resumed read the same records. To see what paid:
--   SELECT i.origin_kind, COUNT(*), AVG(m.speedup) FROM iterations i JOIN measurements m ON m.iteration_id = i.id
--   WHERE i.purpose = 'screening' GROUP BY i.origin_kind;

DROP TRIGGER finished_iteration_stays;  -- made again below, when the rows of older sessions have their new columns

ALTER TABLE iterations ADD COLUMN purpose TEXT NOT NULL DEFAULT 'screening'
    CHECK (purpose IN ('initial', 'remeasurement', 'screening', 'confirmation'));  -- why it was run
ALTER TABLE iterations ADD COLUMN origin TEXT NOT NULL DEFAULT '{"kind":"unknown"}';  -- JSON: where its configuration came from
ALTER TABLE iterations ADD COLUMN origin_kind TEXT GENERATED ALWAYS AS (origin ->> 'kind') VIRTUAL;  -- move, random, ...

ALTER TABLE baselines ADD COLUMN kind TEXT NOT NULL DEFAULT 'program'
    CHECK (kind IN ('program', 'initial_kernel'));  -- what was timed: a program, or the initial kernel for want of one

ALTER TABLE contests ADD COLUMN purpose TEXT
    GENERATED ALWAYS AS (CASE WHEN session_id IS NULL THEN 'confirmation' ELSE 'final' END) VIRTUAL;  -- why it was held
ALTER TABLE contests ADD COLUMN wall_s REAL;  -- how long it took; NULL for those recorded before this was kept

-- What older rows say in their claims.
UPDATE iterations SET purpose = 'confirmation'
WHERE hash = (SELECT parent.hash FROM iterations parent WHERE parent.id = iterations.parent_id);

UPDATE iterations SET purpose = 'initial', origin = '{"kind":"initial_kernel"}'
WHERE id IN (SELECT iteration_id FROM hypotheses
             WHERE claim LIKE 'the seed of % is where this workload starts' AND relative_to IS NULL);

UPDATE iterations SET purpose = 'remeasurement'
WHERE id IN (SELECT iteration_id FROM hypotheses WHERE claim LIKE 'the committed winner of % is faster than the seed')
  AND purpose = 'screening'
  AND EXISTS (SELECT 1 FROM contests c WHERE c.iteration_id = iterations.id);

UPDATE iterations SET origin = (
    SELECT json_object('kind', 'committed_winner', 'device',
                       CASE WHEN h.evidence LIKE 'an earlier session confirmed it on %'
                            THEN SUBSTR(h.evidence, LENGTH('an earlier session confirmed it on ') + 1) ELSE '' END)
    FROM hypotheses h WHERE h.iteration_id = iterations.id)
WHERE id IN (SELECT iteration_id FROM hypotheses WHERE claim LIKE 'the committed winner of % is faster than the seed');

UPDATE iterations SET origin = '{"kind":"family_default"}'
WHERE id IN (SELECT iteration_id FROM hypotheses WHERE claim LIKE 'the seed of % is worth starting from');

UPDATE iterations SET origin = '{"kind":"random"}'
WHERE id IN (SELECT iteration_id FROM hypotheses WHERE claim LIKE 'a random point of %');

UPDATE iterations SET origin = '{"kind":"injected_fault"}'
WHERE id IN (SELECT iteration_id FROM hypotheses WHERE claim LIKE '% is broken, and the session goes on');

UPDATE iterations SET origin = (
    SELECT json_object('kind', 'transfer', 'case',
                       SUBSTR(h.claim, LENGTH('what is fastest on ') + 1,
                              INSTR(h.claim, ' is fast on ') - LENGTH('what is fastest on ') - 1))
    FROM hypotheses h WHERE h.iteration_id = iterations.id)
WHERE id IN (SELECT iteration_id FROM hypotheses WHERE claim LIKE 'what is fastest on % is fast on %, too');

UPDATE iterations SET origin = (
    SELECT json_object('kind', 'move', 'changes', json_group_array(
        json_object('parameter', now.key, 'from', before.value, 'to', now.value)))
    FROM iterations parent, json_each(parent.params) before, json_each(iterations.params) now
    WHERE parent.id = iterations.parent_id AND before.key = now.key AND before.value <> now.value)
WHERE parent_id IS NOT NULL AND purpose = 'screening' AND origin = '{"kind":"unknown"}';

UPDATE iterations SET origin = (SELECT parent.origin FROM iterations parent WHERE parent.id = iterations.parent_id)
WHERE purpose = 'confirmation';

UPDATE baselines SET kind = 'initial_kernel' WHERE name LIKE '%, the seed of %';

-- A session may have died between a failed confirmation and what follows from it: the variant is out of the running where it
-- failed, and wherever it was only screened.
INSERT INTO disqualifications (iteration_id, case_name, reason, disqualified_at)
SELECT m.iteration_id, m.case_name, COALESCE(MAX(failed.outcome_message), MAX(failed.outcome), ''), MAX(failed.ended_at)
FROM iterations failed
JOIN iterations i ON i.session_id = failed.session_id AND i.hash = failed.hash AND i.outcome = 'measured'
JOIN measurements m ON m.iteration_id = i.id
WHERE failed.purpose = 'confirmation' AND failed.outcome <> 'measured' AND m.verdict <> 'rejected'
  AND (m.case_name = failed.outcome_case
       OR NOT EXISTS (SELECT 1 FROM iterations other JOIN measurements won ON won.iteration_id = other.id
                      WHERE other.session_id = i.session_id AND other.hash = i.hash AND won.case_name = m.case_name
                        AND other.outcome = 'measured'
                        AND (won.verdict IN ('start', 'improved')
                             OR EXISTS (SELECT 1 FROM contests c
                                        WHERE c.iteration_id = won.iteration_id AND c.case_name = won.case_name))))
GROUP BY m.iteration_id, m.case_name
ON CONFLICT DO NOTHING;

CREATE TRIGGER finished_iteration_stays BEFORE UPDATE ON iterations WHEN OLD.ended_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'the iteration is finished'); END;

-- The order of all that a session has recorded. Triggers write it, so that no record can be made without its place.
CREATE TABLE journal (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order
    session_id   INTEGER NOT NULL REFERENCES sessions (id),
    kind         TEXT NOT NULL CHECK (kind IN ('resumed', 'baseline', 'begun', 'concluded', 'disqualified', 'final',
                                               'committed', 'booked')),
    iteration_id INTEGER REFERENCES iterations (id),  -- the iteration that it is about, where it is about one
    case_name    TEXT,                                -- the case, where it is about one
    detail       TEXT   -- the rest of the key: a baseline's name, the number of a resumption, the id of a contest or a cost
) STRICT;

CREATE INDEX journal_by_session ON journal (session_id, seq);

-- Older sessions, in the order in which they must have been written.
INSERT INTO journal (session_id, kind, iteration_id, case_name, detail)
SELECT session_id, kind, iteration_id, case_name, detail FROM (
    SELECT session_id, 0 AS place, 'baseline' AS kind, NULL AS iteration_id, case_name, name AS detail, median_ns AS tie
    FROM baselines
    UNION ALL
    SELECT session_id, ordinal * 10 + 1, 'begun', id, NULL, NULL, 0 FROM iterations
    UNION ALL
    SELECT session_id, ordinal * 10 + 2, 'concluded', id, NULL, NULL, 0 FROM iterations WHERE ended_at IS NOT NULL
    UNION ALL
    SELECT i.session_id,
           10 * COALESCE((SELECT MAX(before.ordinal) FROM iterations before
                          WHERE before.session_id = i.session_id AND before.ended_at <= d.disqualified_at), i.ordinal) + 3,
           'disqualified', d.iteration_id, d.case_name, NULL, d.iteration_id
    FROM disqualifications d JOIN iterations i ON i.id = d.iteration_id
    UNION ALL
    SELECT i.session_id, i.ordinal * 10 + 4, 'committed', c.iteration_id, c.case_name, NULL, 0
    FROM commits c JOIN iterations i ON i.id = c.iteration_id
    UNION ALL
    SELECT c.session_id,
           10 * COALESCE((SELECT MIN(later.ordinal) - 1 FROM contests other JOIN iterations later ON later.id = other.iteration_id
                          WHERE later.session_id = c.session_id AND other.id > c.id),
                         (SELECT MAX(ordinal) FROM iterations WHERE session_id = c.session_id)) + 5,
           'final', c.winner_id, c.case_name, c.id, c.id
    FROM contests c WHERE c.session_id IS NOT NULL
    UNION ALL
    SELECT session_id, (SELECT MAX(ordinal) FROM iterations WHERE session_id = costs.session_id) * 10 + 6, 'booked', NULL, NULL,
           id, id
    FROM costs WHERE iteration_id IS NULL
    UNION ALL
    SELECT session_id, begun * 10 + 7, 'resumed', NULL, NULL, number, number FROM resumptions
) ORDER BY session_id, place, tie;

CREATE TRIGGER journal_baseline AFTER INSERT ON baselines
BEGIN INSERT INTO journal (session_id, kind, case_name, detail) VALUES (NEW.session_id, 'baseline', NEW.case_name, NEW.name); END;

CREATE TRIGGER journal_begun AFTER INSERT ON iterations
BEGIN INSERT INTO journal (session_id, kind, iteration_id) VALUES (NEW.session_id, 'begun', NEW.id); END;

CREATE TRIGGER journal_concluded AFTER UPDATE ON iterations WHEN OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL
BEGIN INSERT INTO journal (session_id, kind, iteration_id) VALUES (NEW.session_id, 'concluded', NEW.id); END;

CREATE TRIGGER journal_disqualified AFTER INSERT ON disqualifications
BEGIN
    INSERT INTO journal (session_id, kind, iteration_id, case_name)
    SELECT session_id, 'disqualified', id, NEW.case_name FROM iterations WHERE id = NEW.iteration_id;
END;

CREATE TRIGGER journal_final AFTER INSERT ON contests WHEN NEW.session_id IS NOT NULL
BEGIN
    INSERT INTO journal (session_id, kind, iteration_id, case_name, detail)
    VALUES (NEW.session_id, 'final', NEW.winner_id, NEW.case_name, NEW.id);
END;

CREATE TRIGGER journal_committed AFTER INSERT ON commits
BEGIN
    INSERT INTO journal (session_id, kind, iteration_id, case_name)
    SELECT session_id, 'committed', id, NEW.case_name FROM iterations WHERE id = NEW.iteration_id;
END;

CREATE TRIGGER journal_booked AFTER INSERT ON costs WHEN NEW.iteration_id IS NULL
BEGIN INSERT INTO journal (session_id, kind, detail) VALUES (NEW.session_id, 'booked', NEW.id); END;

CREATE TRIGGER journal_resumed AFTER INSERT ON resumptions
BEGIN INSERT INTO journal (session_id, kind, detail) VALUES (NEW.session_id, 'resumed', NEW.number); END;

CREATE TRIGGER journal_stays BEFORE UPDATE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal never changes'); END;

CREATE TRIGGER journal_is_kept BEFORE DELETE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal never changes'); END;
