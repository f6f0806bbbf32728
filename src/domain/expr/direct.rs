//! Evaluates expressions without the interpreter.
//!
//! A proposer checks thousands of configurations, each against a dozen constraints. The interpreter takes microseconds
//! for one constraint, most of them for its scope. Here, a constraint takes a tenth of that. Whatever is not plain
//! arithmetic on integers, or fails, is left to the interpreter, which also words the errors.

use rhai::{AST, Expr, FnCallExpr, Position, Stmt};

use super::{ceil_div, round_up};

/// The largest expression, in constants, names and operations. The interpreter limits the work of larger ones.
const MAX_SIZE: usize = 1000;

/// The value of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    /// An integer.
    Int(i64),
    /// True or false.
    Bool(bool),
}

/// Why there is no value.
#[derive(Debug)]
pub(super) enum NoValue<'a, N> {
    /// A name is not bound.
    Unbound(&'a N),
    /// The interpreter has to find out.
    Unknown,
}

/// A name with its position in the text.
#[derive(Debug, Clone)]
pub(super) struct Name(pub String, pub Position);

/// An expression of integers, truth values, names, operators and functions.
#[derive(Debug, Clone)]
pub(super) enum Direct<N> {
    Constant(Value),
    Name(N),
    All(Vec<Self>),
    Any(Vec<Self>),
    Unary(fn(Value) -> Option<Value>, Box<Self>),
    Binary(fn(Value, Value) -> Option<Value>, Box<[Self; 2]>),
}

impl Direct<Name> {
    /// Translates what the interpreter has parsed. None if something in it is not known here.
    pub fn of(ast: &AST) -> Option<Self> {
        let direct = match ast.statements() {
            [Stmt::Expr(expr)] => Self::of_expr(expr),
            [Stmt::FnCall(call, _)] => Self::of_call(call),
            _ => None,
        };
        direct.filter(|direct| direct.size() <= MAX_SIZE)
    }

    /// Returns the number of constants, names and operations.
    fn size(&self) -> usize {
        1 + match self {
            Self::Constant(_) | Self::Name(_) => 0,
            Self::All(parts) | Self::Any(parts) => parts.iter().map(Self::size).sum(),
            Self::Unary(_, of) => of.size(),
            Self::Binary(_, of) => of.iter().map(Self::size).sum(),
        }
    }

    fn of_expr(expr: &Expr) -> Option<Self> {
        let all = |parts: &[Expr]| parts.iter().map(Self::of_expr).collect::<Option<Vec<Self>>>();
        match expr {
            Expr::IntegerConstant(value, _) => Some(Self::Constant(Value::Int(*value))),
            Expr::BoolConstant(value, _) => Some(Self::Constant(Value::Bool(*value))),
            Expr::Variable(variable, _, position) => Some(Self::Name(Name(variable.1.to_string(), *position))),
            Expr::And(parts, _) => all(parts).map(Self::All),
            Expr::Or(parts, _) => all(parts).map(Self::Any),
            Expr::FnCall(call, _) => Self::of_call(call),
            _ => None,
        }
    }

    fn of_call(call: &FnCallExpr) -> Option<Self> {
        match &call.args[..] {
            [one] => Some(Self::Unary(unary(&call.name)?, Box::new(Self::of_expr(one)?))),
            [a, b] => Some(Self::Binary(binary(&call.name)?, Box::new([Self::of_expr(a)?, Self::of_expr(b)?]))),
            _ => None,
        }
    }

    /// Replaces each name by its place. None if one has none.
    pub fn placed(&self, place: &impl Fn(&str) -> Option<usize>) -> Option<Direct<usize>> {
        let all = |parts: &[Self]| parts.iter().map(|part| part.placed(place)).collect::<Option<Vec<_>>>();
        Some(match self {
            Self::Constant(value) => Direct::Constant(*value),
            Self::Name(Name(name, _)) => Direct::Name(place(name)?),
            Self::All(parts) => Direct::All(all(parts)?),
            Self::Any(parts) => Direct::Any(all(parts)?),
            Self::Unary(function, of) => Direct::Unary(*function, Box::new(of.placed(place)?)),
            Self::Binary(function, of) => {
                Direct::Binary(*function, Box::new([of[0].placed(place)?, of[1].placed(place)?]))
            }
        })
    }
}

impl<N> Direct<N> {
    /// Evaluates the expression, as the interpreter does: from left to right, and no further than needed.
    pub fn eval(&self, value_of: &impl Fn(&N) -> Option<i64>) -> Result<Value, NoValue<'_, N>> {
        match self {
            Self::Constant(value) => Ok(*value),
            Self::Name(name) => value_of(name).map(Value::Int).ok_or(NoValue::Unbound(name)),
            Self::All(parts) => Self::until(parts, false, value_of),
            Self::Any(parts) => Self::until(parts, true, value_of),
            Self::Unary(function, of) => function(of.eval(value_of)?).ok_or(NoValue::Unknown),
            Self::Binary(function, of) => {
                function(of[0].eval(value_of)?, of[1].eval(value_of)?).ok_or(NoValue::Unknown)
            }
        }
    }

    /// Evaluates truth values up to the first one that is `decisive`.
    fn until<'a>(
        parts: &'a [Self],
        decisive: bool,
        value_of: &impl Fn(&N) -> Option<i64>,
    ) -> Result<Value, NoValue<'a, N>> {
        for part in parts {
            match part.eval(value_of)? {
                Value::Bool(value) if value == decisive => return Ok(Value::Bool(decisive)),
                Value::Bool(_) => {}
                Value::Int(_) => return Err(NoValue::Unknown),
            }
        }
        Ok(Value::Bool(!decisive))
    }
}

fn unary(name: &str) -> Option<fn(Value) -> Option<Value>> {
    use Value::{Bool, Int};
    Some(match name {
        "-" => |a| if let Int(a) = a { a.checked_neg().map(Int) } else { None },
        "!" => |a| if let Bool(a) = a { Some(Bool(!a)) } else { None },
        "is_pow2" => |a| if let Int(a) = a { Some(Bool(super::is_pow2(a))) } else { None },
        _ => return None,
    })
}

fn binary(name: &str) -> Option<fn(Value, Value) -> Option<Value>> {
    use Value::{Bool, Int};
    /// Makes a function of two integers.
    macro_rules! of_ints {
        ($a:ident, $b:ident => $value:expr) => {
            |a, b| if let (Int($a), Int($b)) = (a, b) { $value } else { None }
        };
    }
    Some(match name {
        "+" => of_ints!(a, b => a.checked_add(b).map(Int)),
        "-" => of_ints!(a, b => a.checked_sub(b).map(Int)),
        "*" => of_ints!(a, b => a.checked_mul(b).map(Int)),
        "/" => of_ints!(a, b => a.checked_div(b).map(Int)),
        "%" => of_ints!(a, b => a.checked_rem(b).map(Int)),
        "==" => of_ints!(a, b => Some(Bool(a == b))),
        "!=" => of_ints!(a, b => Some(Bool(a != b))),
        "<" => of_ints!(a, b => Some(Bool(a < b))),
        "<=" => of_ints!(a, b => Some(Bool(a <= b))),
        ">" => of_ints!(a, b => Some(Bool(a > b))),
        ">=" => of_ints!(a, b => Some(Bool(a >= b))),
        "min" => of_ints!(a, b => Some(Int(a.min(b)))),
        "max" => of_ints!(a, b => Some(Int(a.max(b)))),
        "ceil_div" => of_ints!(a, b => ceil_div(a, b).ok().map(Int)),
        "round_up" => of_ints!(a, b => round_up(a, b).ok().map(Int)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Expr;

    const TEXTS: [&str; 12] = [
        "2 * A * B + C <= 100 && (A == B || !(C > 3))",
        "A / B",
        "A % B - -C",
        "A != B && B >= C || C < A",
        "ceil_div(A, B) + round_up(B, C)",
        "min(A, B) * max(B, C)",
        "is_pow2(A) || B > 0",
        "A > 0 && MISSING > 0",
        "MISSING + A / B",
        "A && B > 0",
        "A == (B > 1)",
        "if A > B { A } else { B }",
    ];

    proptest! {
        #[test]
        fn values_and_errors_are_those_of_the_interpreter(
            text in prop::sample::select(&TEXTS[..]),
            numbers in prop::array::uniform3(prop_oneof![-4_i64..20, any::<i64>()]),
        ) {
            let fast = Expr::parse(text).unwrap();
            let slow = Expr { direct: None, ..fast.clone() };
            let bindings = ["A", "B", "C"].map(str::to_owned).into_iter().zip(numbers).collect();
            let shown = |expr: &Expr| {
                let (int, flag) = (expr.int(&bindings), expr.flag(&bindings));
                format!("{:?} {:?}", int.map_err(|error| format!("{error:?}")), flag.map_err(|error| format!("{error:?}")))
            };
            prop_assert_eq!(shown(&fast), shown(&slow));
        }
    }

    #[test]
    fn only_what_is_not_arithmetic_is_left_to_the_interpreter() {
        let left: Vec<&str> = TEXTS.into_iter().filter(|text| Expr::parse(text).unwrap().direct.is_none()).collect();
        assert_eq!(left, ["if A > B { A } else { B }"]);
    }
}
