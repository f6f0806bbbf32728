//! An expression gives a number, a boolean or an error for any text.
#![no_main]

use optloop::domain::expr::{Bindings, Expr};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let bindings: Bindings = [("A", 3), ("BIG", i64::MAX), ("SMALL", i64::MIN), ("ZERO", 0)]
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect();
    if let Ok(expr) = Expr::parse(text) {
        let _ = expr.int(&bindings);
        let _ = expr.boolean(&bindings);
    }
});
