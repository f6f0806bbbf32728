//! A service through its real program and real sockets, on the fake device.

mod api;
mod disk;
mod events;
mod kills;
mod notify;
mod operations;
mod pages;
pub mod running;
mod safety;
mod submissions;
mod verbs;
