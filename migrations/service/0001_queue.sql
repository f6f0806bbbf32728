-- The queue of a service: sessions that were handed in, and what became of them.

CREATE TABLE submissions (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    uid             TEXT    NOT NULL UNIQUE,       -- its name in the session's store, random
    project         TEXT    NOT NULL,              -- the project's folder, with links resolved
    request         TEXT    NOT NULL,              -- the options of the session, as JSON
    device          TEXT    NOT NULL,              -- the device that the request or the project's configuration names
    priority        INTEGER NOT NULL,              -- the highest starts first
    client          TEXT    NOT NULL,              -- the name of the token, or local
    idempotency_key TEXT,                          -- a second submission of a client with the same key is the first one
    state           TEXT    NOT NULL CHECK (state IN ('queued', 'running', 'ended', 'cancelled', 'failed')),
    asked           TEXT    CHECK (asked IN ('stop', 'cancel')),  -- what somebody asked of it while it runs
    lane            TEXT,                          -- cuda:N or virtual: where it runs, or ran last
    session         INTEGER,                       -- the number of its session in the project's store
    attempts        INTEGER NOT NULL DEFAULT 0,    -- processes started since an iteration last ended
    iterations      INTEGER NOT NULL DEFAULT 0,    -- of its session when a process last ended
    not_before_ms   INTEGER NOT NULL DEFAULT 0,    -- it is not started before, in milliseconds since 1970
    reason          TEXT,                          -- why it ended, failed or waits
    submitted_at    TEXT    NOT NULL,
    started_at      TEXT,
    ended_at        TEXT,
    UNIQUE (client, idempotency_key)
) STRICT;

-- Few submissions are queued or running, however many there were.
CREATE INDEX submissions_open ON submissions (state, priority DESC, id) WHERE state IN ('queued', 'running');
CREATE INDEX submissions_of_project ON submissions (project, session);
