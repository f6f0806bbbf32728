-- Which commits a session has made, and which it has found in HEAD.

ALTER TABLE commits ADD COLUMN earlier INTEGER NOT NULL DEFAULT 0
    CHECK (earlier IN (0, 1));  -- 1: an earlier session made the commit, and this one has measured its winner again
