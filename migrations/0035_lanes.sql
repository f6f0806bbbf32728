-- The devices of a session that only screen, beside its own: a JSON list, such as ["cuda:1"]. NULL if there are none.
ALTER TABLE sessions ADD COLUMN lanes TEXT;

-- The device on which an iteration was screened, if it was one of those: its UUID, or as it was selected if it has none.
ALTER TABLE iterations ADD COLUMN lane TEXT;
