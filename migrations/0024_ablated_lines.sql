-- Which lines of a kernel's source the removed instructions come from.
-- To see which lines of the winners cost most:
--   SELECT l.case_name, l.removed, l.line, l.text, a.control_ns - l.time_ns AS saved_ns
--   FROM ablated_lines l JOIN ablations a USING (iteration_id, case_name, removed)
--                        JOIN commits c USING (iteration_id, case_name)
--   WHERE l.time_ns IS NOT NULL ORDER BY l.case_name, saved_ns DESC;

-- A row for each line of the source and each kind of instruction that comes from it. Ablations of earlier versions have none.
CREATE TABLE ablated_lines (
    iteration_id INTEGER NOT NULL REFERENCES iterations (id),  -- the iteration that measured the variant
    case_name    TEXT NOT NULL,     -- the case
    removed      TEXT NOT NULL,     -- the kind of instruction, as in ablations; for all_kinds_and_waits, the waits among them
    place        INTEGER NOT NULL,  -- order among the lines of this kind, from 0
    line         INTEGER NOT NULL,  -- number of the line in the rendered source, from 1
    text         TEXT NOT NULL,     -- the line without a comment at its end, shortened to 80 characters
    places       INTEGER NOT NULL,  -- removed instructions of this kind that come from it
    time_ns      REAL,              -- median time in nanoseconds without these only; NULL if it was not timed
    PRIMARY KEY (iteration_id, case_name, removed, place)
) STRICT;

CREATE TRIGGER ablated_line_stays BEFORE UPDATE ON ablated_lines
BEGIN SELECT RAISE(ABORT, 'an ablation never changes'); END;

CREATE TRIGGER ablated_line_is_kept BEFORE DELETE ON ablated_lines
BEGIN SELECT RAISE(ABORT, 'an ablation never changes'); END;
