-- Sessions that a service started. A submission has at most one session, however often the service or the session was
-- killed.

ALTER TABLE sessions ADD COLUMN submission TEXT;  -- the name of the submission, unique everywhere; NULL: the session was
                                                  -- started by hand

CREATE UNIQUE INDEX sessions_submission ON sessions (submission) WHERE submission IS NOT NULL;
