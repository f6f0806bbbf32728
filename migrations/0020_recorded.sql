-- Sessions on recorded search spaces. A third source of times, so the table is made again: a CHECK cannot be changed.
PRAGMA defer_foreign_keys = ON;  -- sessions refer to its rows

CREATE TABLE environments_before AS SELECT id, hash, device, nvrtc, optloop, torch, host FROM environments;
DROP TABLE environments;

-- The machines on which sessions ran. Two sessions on the same machine with the same software share a row.
CREATE TABLE environments (
    id           INTEGER PRIMARY KEY,
    hash         TEXT NOT NULL UNIQUE,  -- BLAKE3 of every other column that is not derived: one row an environment
    device       TEXT NOT NULL,         -- JSON: the device with its limits and peaks, as the session saw it
    device_id    TEXT NOT NULL GENERATED ALWAYS AS (device ->> 'id'),             -- how it was selected: `cuda:0`
    device_name  TEXT NOT NULL GENERATED ALWAYS AS (device ->> 'name'),           -- product: `NVIDIA H200`
    arch         TEXT NOT NULL GENERATED ALWAYS AS (device ->> 'arch'),           -- NVRTC architecture: `sm_90a`
    sms          INTEGER NOT NULL GENERATED ALWAYS AS (device ->> 'sms'),         -- streaming multiprocessors
    driver       TEXT GENERATED ALWAYS AS (device ->> 'driver'),                  -- driver version; NULL without one
    time_source  TEXT NOT NULL GENERATED ALWAYS AS (device ->> 'time_source')
                 CHECK (time_source IN ('measured', 'modelled', 'recorded')),     -- times of two sources are never compared
    peaks_source TEXT NOT NULL GENERATED ALWAYS AS (device -> 'peaks' ->> 'source'), -- where the ceilings come from
    nvrtc        TEXT NOT NULL,         -- version of the compiler; `none` where nothing is compiled
    optloop      TEXT NOT NULL,         -- version of optloop
    torch        TEXT,                  -- version of PyTorch; NULL where there is none, so no torch baseline
    host         TEXT NOT NULL,         -- operating system and CPU of the host
    graphs       TEXT GENERATED ALWAYS AS (COALESCE(device ->> 'graphs', 'alone')) VIRTUAL
                 CHECK (graphs IN ('alone', 'among_others'))  -- the two are never compared; `alone` before this was kept
) STRICT;

INSERT INTO environments (id, hash, device, nvrtc, optloop, torch, host)
SELECT id, hash, device, nvrtc, optloop, torch, host FROM environments_before;
DROP TABLE environments_before;
