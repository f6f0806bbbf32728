-- Runs of the coding agent that proposed in a session. An agent that ends early is started again.
CREATE TABLE agent_runs (
    session_id         INTEGER NOT NULL REFERENCES sessions (id),
    run                INTEGER NOT NULL,  -- number among the session's runs, from 1
    command            TEXT NOT NULL,     -- JSON: the program and its arguments
    ended_at           TEXT NOT NULL,     -- when it ended
    wall_s             REAL NOT NULL,     -- how long it ran
    exit_code          INTEGER,           -- as a shell reports it; NULL if optloop ended it
    evaluations        INTEGER NOT NULL,  -- kernels of its that were evaluated
    cost_micro_usd     INTEGER,           -- what it says that it cost, in millionths of a US dollar; NULL if it does not say
    input_tokens       INTEGER,           -- tokens as it reports them; NULL if it does not
    cached_tokens      INTEGER,
    cache_write_tokens INTEGER,
    output_tokens      INTEGER,
    said               TEXT NOT NULL,     -- the end of what it wrote
    PRIMARY KEY (session_id, run)
);
