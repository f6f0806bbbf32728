-- How modelled times came about. Whether a time is measured or modelled is the device's affair since the first release:
-- see environments.time_source.

ALTER TABLE measurements ADD COLUMN profile TEXT;  -- JSON: what a virtual GPU counted, launch by launch; NULL if measured
