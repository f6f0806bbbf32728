-- A variant that needs more memory than the device has is neither wrong nor refused by the compiler: a new outcome. SQLite cannot
-- alter a CHECK, and another one refers to the column, so the text of the table is changed in place. No row changes.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, '''pruned''', '''pruned'', ''out_of_memory''')
WHERE type = 'table' AND name = 'iterations';
PRAGMA writable_schema = RESET;
