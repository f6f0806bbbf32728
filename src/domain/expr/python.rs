//! Writes expressions in Python, for tools that read conditions in it.
//!
//! Divisions round down in Python, and towards zero here. Both are the same for numbers that are not negative, as sizes
//! and parameters are.

use rhai::{Expr, FnCallExpr, Stmt};

/// The longest part of an expression in Python, in bytes. Derived values are written out, and some functions write an argument
/// twice, so nested ones double at each step.
const MAX_BYTES: usize = 64 << 10;

/// Writes an expression with every part in parentheses, so that precedence does not matter. `name` writes a name. None
/// if a name is not known, if Python has no such operation, or if the text becomes too long.
pub(super) fn write(statements: &[Stmt], name: &impl Fn(&str) -> Option<String>) -> Option<String> {
    match statements {
        [Stmt::Expr(expr)] => of_expr(expr, name),
        [Stmt::FnCall(call, _)] => of_call(call, name),
        [Stmt::If(parts, _)] => {
            let [condition, body, branch] = [
                of_expr(&parts.expr, name)?,
                write(parts.body.statements(), name)?,
                write(parts.branch.statements(), name)?,
            ];
            Some(format!("({body} if {condition} else {branch})"))
        }
        _ => None,
    }
}

fn of_expr(expr: &Expr, name: &impl Fn(&str) -> Option<String>) -> Option<String> {
    part(expr, name).filter(|text| text.len() <= MAX_BYTES)
}

fn part(expr: &Expr, name: &impl Fn(&str) -> Option<String>) -> Option<String> {
    let all = |parts: &[Expr], operator: &str| {
        let parts: Option<Vec<String>> = parts.iter().map(|part| of_expr(part, name)).collect();
        parts.map(|parts| format!("({})", parts.join(operator)))
    };
    match expr {
        Expr::IntegerConstant(value, _) => Some(value.to_string()),
        Expr::BoolConstant(true, _) => Some("True".to_owned()),
        Expr::BoolConstant(false, _) => Some("False".to_owned()),
        Expr::Variable(variable, ..) => name(&variable.1),
        Expr::And(parts, _) => all(parts, " and "),
        Expr::Or(parts, _) => all(parts, " or "),
        Expr::FnCall(call, _) => of_call(call, name),
        Expr::Stmt(block) => write(block.statements(), name),
        _ => None,
    }
}

fn of_call(call: &FnCallExpr, name: &impl Fn(&str) -> Option<String>) -> Option<String> {
    let args: Option<Vec<String>> = call.args.iter().map(|arg| of_expr(arg, name)).collect();
    let ceil_div = |a: &str, b: &str| format!("(({a} + {b} - 1) // {b})");
    Some(match (call.name.as_str(), args?.as_slice()) {
        ("-", [a]) => format!("(-{a})"),
        ("!", [a]) => format!("(not {a})"),
        ("is_pow2", [a]) => format!("({a} > 0 and ({a} & ({a} - 1)) == 0)"),
        ("/", [a, b]) => format!("({a} // {b})"),
        ("ceil_div", [a, b]) => ceil_div(a, b),
        ("round_up", [a, b]) => format!("({} * {b})", ceil_div(a, b)),
        (function @ ("min" | "max"), [a, b]) => format!("{function}({a}, {b})"),
        (operator @ ("+" | "-" | "*" | "%" | "==" | "!=" | "<" | "<=" | ">" | ">="), [a, b]) => {
            format!("({a} {operator} {b})")
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::Expr;

    #[test]
    fn expressions_keep_their_meaning_in_python() {
        let python = |text: &str| {
            let name = |name: &str| match name {
                "N" => Some("4096".to_owned()),
                "SMEM" => Some("(2 * A)".to_owned()),
                "A" | "B" => Some(name.to_owned()),
                _ => None,
            };
            Expr::parse(text).unwrap().in_python(&name)
        };
        let some = |text: &str| python(text).unwrap();
        insta::assert_snapshot!(some("A * B <= 1024 && !(A > B) || N % A == 0"), @"((((A * B) <= 1024) and (not (A > B))) or ((4096 % A) == 0))");
        insta::assert_snapshot!(some("SMEM + ceil_div(N, A) <= round_up(B, 8)"), @"(((2 * A) + ((4096 + A - 1) // A)) <= (((B + 8 - 1) // 8) * 8))");
        insta::assert_snapshot!(some("min(A, N / B) == 2 && is_pow2(A)"), @"((min(A, (4096 // B)) == 2) and (A > 0 and (A & (A - 1)) == 0))");
        insta::assert_snapshot!(some("A + (if B > 2 { 48 } else { -28 }) <= 255"), @"((A + (48 if (B > 2) else -28)) <= 255)");
        assert_eq!(python("A < C"), None, "an unknown name");
        // Each step writes its argument three times.
        let nested = (0..12).fold("A".to_owned(), |inner, _| format!("round_up(1, {inner})"));
        assert_eq!(python(&nested), None, "three to the twelfth");
    }
}
