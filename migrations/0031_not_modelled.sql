-- A variant that does what a virtual GPU does not model is neither wrong nor refused by the compiler: a new outcome. SQLite cannot
-- alter a CHECK, and another one refers to the column, so the text of the table is changed in place. No row changes.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, '''out_of_memory''', '''out_of_memory'', ''not_modelled''')
WHERE type = 'table' AND name = 'iterations';
PRAGMA writable_schema = RESET;
