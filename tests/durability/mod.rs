//! What a badly ended session leaves behind and how it resumes, on the fake device, through the command line.

mod disk;
mod killed;
mod record;
mod resumed;
mod running;
