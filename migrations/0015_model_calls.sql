-- Calls of language models: what was asked, what came back, and what it cost. To see what paid:
--   SELECT c.model, COUNT(*), SUM(c.cost_micro_usd) / 1e6 AS usd FROM model_calls c GROUP BY c.model;
--   SELECT i.id, h.claim, h.actual_speedup FROM iterations i JOIN hypotheses h ON h.iteration_id = i.id
--   WHERE i.model_call_id = 7;

CREATE TABLE model_calls (
    id                 INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id         INTEGER NOT NULL REFERENCES sessions (id),
    purpose            TEXT NOT NULL CHECK (purpose IN ('plan', 'code', 'repair')),  -- what it was for
    ordinal            INTEGER NOT NULL,  -- counts the session's calls for this purpose, from 1
    model              TEXT NOT NULL,     -- the provider's name of the model
    subject            TEXT NOT NULL,     -- JSON: what it asks for, with the approach
    prompt             TEXT NOT NULL,     -- JSON: the request as it was sent, without headers
    reserve_micro_usd  INTEGER NOT NULL,  -- the most that it could cost
    is_retry           INTEGER NOT NULL,  -- 1 if it repeats a call whose answer never came
    asked_after        INTEGER NOT NULL,  -- iterations of the session that had ended when it began
    begun_at           TEXT NOT NULL,     -- instant
    ended_at           TEXT,              -- instant; NULL while it runs, or if its process died
    status             TEXT CHECK (status IN ('answered', 'failed', 'lost')),  -- how it ended
    error_kind         TEXT,              -- the kind of failure (docs/models.md); NULL if it did not fail
    message            TEXT,              -- why it failed, in a sentence; NULL if it did not
    is_final           INTEGER,           -- 1 if the endpoint cannot be used any more
    answer             TEXT,              -- JSON: the answer
    text               TEXT,              -- what the model wrote
    input_tokens       INTEGER,           -- input outside the provider's cache, as the provider counted; NULL if unknown
    cached_tokens      INTEGER,           -- input read from the cache
    cache_write_tokens INTEGER,           -- input written to the cache
    output_tokens      INTEGER,           -- output
    cost_micro_usd     INTEGER,           -- millionths of a US dollar; the reserve if the cost is unknown
    cost_is_known      INTEGER,           -- 0 if the answer never came, or the provider's counts cannot be right
    latency_ms         INTEGER,           -- from the first attempt to the end of the answer
    attempts           INTEGER,           -- how often the request was sent
    answered_after     INTEGER,           -- iterations that had ended when the session took the answer
    UNIQUE (session_id, purpose, ordinal),
    CHECK ((ended_at IS NULL) = (status IS NULL))
) STRICT;

CREATE TRIGGER ended_call_stays BEFORE UPDATE ON model_calls WHEN OLD.ended_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'the call has ended'); END;

CREATE TRIGGER calls_are_kept BEFORE DELETE ON model_calls
BEGIN SELECT RAISE(ABORT, 'calls are kept'); END;

ALTER TABLE iterations ADD COLUMN model_call_id INTEGER
    GENERATED ALWAYS AS (origin ->> 'call') VIRTUAL;  -- the call that proposed the variant; NULL if none did

-- New kinds of records. The table is made again under its own name, so that the triggers that write it stay as they are.
CREATE TABLE earlier_journal AS SELECT * FROM journal;
DROP TABLE journal;
CREATE TABLE journal (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order
    session_id   INTEGER NOT NULL REFERENCES sessions (id),
    kind         TEXT NOT NULL CHECK (kind IN ('resumed', 'baseline', 'begun', 'concluded', 'disqualified', 'final',
                                               'committed', 'booked', 'counted', 'call_begun', 'call_ended')),
    iteration_id INTEGER REFERENCES iterations (id),  -- the iteration that it is about, where it is about one
    case_name    TEXT,                                -- the case, where it is about one
    detail       TEXT   -- the rest of the key: a baseline's name, the number of a resumption, the id of a comparison, cost or call
) STRICT;
INSERT INTO journal (seq, session_id, kind, iteration_id, case_name, detail)
SELECT seq, session_id, kind, iteration_id, case_name, detail FROM earlier_journal ORDER BY seq;
DROP TABLE earlier_journal;
CREATE INDEX journal_by_session ON journal (session_id, seq);

CREATE TRIGGER journal_stays BEFORE UPDATE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal never changes'); END;

CREATE TRIGGER journal_is_kept BEFORE DELETE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal never changes'); END;

CREATE TRIGGER journal_call_begun AFTER INSERT ON model_calls
BEGIN INSERT INTO journal (session_id, kind, detail) VALUES (NEW.session_id, 'call_begun', NEW.id); END;

CREATE TRIGGER journal_call_ended AFTER UPDATE ON model_calls WHEN OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL
BEGIN INSERT INTO journal (session_id, kind, detail) VALUES (NEW.session_id, 'call_ended', NEW.id); END;
