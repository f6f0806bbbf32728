-- The measured ceilings of devices, kept from session to session: a row a device and driver. A new measurement takes the
-- place of the one before; what a session went by is in environments.device.

CREATE TABLE peaks (
    device             TEXT NOT NULL,  -- UUID of the device, or its product name where it has none
    driver             TEXT NOT NULL,  -- driver version; empty where none is known. Another driver can mean other clocks
    f16_flops          REAL NOT NULL,  -- FLOP/s of the FP16 tensor cores, summing in FP32
    f32_flops          REAL NOT NULL,  -- FLOP/s at FP32 accuracy
    memory_bytes_per_s REAL NOT NULL,  -- bytes/s of device memory
    l2_bytes_per_s     REAL NOT NULL,  -- bytes/s from L2
    launch_ns          REAL NOT NULL,  -- nanoseconds of an empty kernel as a node of a replayed graph
    source             TEXT NOT NULL,  -- how the figures came about, for people
    measured_at        TEXT NOT NULL,  -- instant
    PRIMARY KEY (device, driver)
) STRICT;
