//! What a session that ends badly leaves behind, and how it goes on: over the fake device, through the command line.

mod disk;
mod killed;
mod record;
mod resumed;
mod running;
