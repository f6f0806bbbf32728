//! Disks that fill up, and stores that somebody else keeps locked.
