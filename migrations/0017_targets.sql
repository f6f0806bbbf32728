-- Where the winners of a session go. Until a session ends, a reference of its own keeps its winners in git. Then one commit
-- holds all of them, and the reference is removed. The table commits has a row for each winner of that commit.

ALTER TABLE sessions ADD COLUMN commit_to TEXT;   -- the reference that gets the commit, such as refs/heads/main, or HEAD if
                                                  -- that is detached; none: the user wants no commit; NULL: there is no
                                                  -- repository, or the session was recorded before this was kept
ALTER TABLE sessions ADD COLUMN kept_under TEXT;  -- the reference that keeps the winners until then; NULL if none does
