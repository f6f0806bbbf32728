//! What a kernel does with a pointer, as far as its text shows.

use super::source::{closing, words};

/// Tells whether a kernel surely writes nothing through a pointer: its body only reads elements, or does not name the pointer.
/// `body` is the kernel's, in braces.
pub(super) fn only_reads(body: &str, name: &str) -> bool {
    words(body, name).all(|at| reads(body, at, name))
}

/// Tells whether a mention of a pointer reads an element.
fn reads(body: &str, at: usize, name: &str) -> bool {
    let before = body[..at].trim_end();
    let after = at + name.len();
    let open = after + body[after..].len() - body[after..].trim_start().len();
    if !body[open..].starts_with('[') || before.ends_with("++") || before.ends_with("--") || before.ends_with('.') {
        return false;
    }
    // An address that is taken, but not a conjunction of conditions.
    if before.ends_with('&') && !before.ends_with("&&") {
        return false;
    }
    let Some(close) = closing(body, open) else { return false };
    let mut rest = body[close..].trim_start();
    // A part of a vector.
    if let Some(part) = rest.strip_prefix('.') {
        rest = part.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_').trim_start();
    }
    let is_assigned = rest.starts_with('=') && !rest.starts_with("==");
    let operators = ["+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--", "["];
    !is_assigned && !operators.iter().any(|operator| rest.starts_with(operator))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_is_an_input_if_its_elements_are_only_read() {
        let reads = |body: &str| only_reads(&format!("{{ {body} }}"), "x");
        for body in ["y[i] = x[i + x[0]];", "if (a && x[i] == 1) y[0] = x[i].w;", "y = z.w + xx[i] ;", ""] {
            assert!(reads(body), "{body}");
        }
        for body in
            ["x[i] = 1;", "x[i].y += 2;", "atomicAdd(&x[i], 1);", "f(x);", "*x = 1;", "++x[0];", "float* p = x + i;"]
        {
            assert!(!reads(body), "{body}");
        }
    }
}
