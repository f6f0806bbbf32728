-- What a search proposed without having it compiled, because it had no chance to be the fastest.
CREATE TABLE suggestions_left_out (
    iteration_id INTEGER PRIMARY KEY REFERENCES iterations (id),  -- the iteration before whose end they were left out
    session_id   INTEGER NOT NULL REFERENCES sessions (id),       -- its session
    suggestions  INTEGER NOT NULL                                 -- how many since the end of the iteration before it
) STRICT;

CREATE INDEX suggestions_left_out_by_session ON suggestions_left_out (session_id, suggestions);

CREATE TRIGGER left_out_stays BEFORE UPDATE ON suggestions_left_out
BEGIN SELECT RAISE(ABORT, 'what was left out never changes'); END;

CREATE TRIGGER left_out_is_kept BEFORE DELETE ON suggestions_left_out
BEGIN SELECT RAISE(ABORT, 'what was left out never changes'); END;
