//! Names, TOML and text that others chose.

pub mod counted;
pub mod escape;
pub mod expected;
pub mod names;
pub mod toml_text;
