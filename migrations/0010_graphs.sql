-- The state of the graphs in which a time was taken. A node of a replayed graph takes longer while its process has another
-- graph that was uploaded and never launched (docs/measuring).

ALTER TABLE environments ADD COLUMN graphs TEXT
    GENERATED ALWAYS AS (COALESCE(device ->> 'graphs', 'alone')) VIRTUAL
    CHECK (graphs IN ('alone', 'among_others'));  -- the two are never compared; `alone` for sessions from before this was kept

ALTER TABLE participants ADD COLUMN graph_node_ns REAL;  -- the control: an empty kernel as a node of a graph, in the
                                                         -- participant's process; NULL if its program does not report it
