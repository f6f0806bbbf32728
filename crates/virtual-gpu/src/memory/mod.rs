//! Global, shared and local memory, with what is known about every byte.
