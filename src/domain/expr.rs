//! Integer expressions in manifests: `"2 * STAGES * BC * (D + PAD) * 2 <= smem_limit"`.
//!
//! [rhai] parses and evaluates them in its expression mode: no statements, no loops, and no names but those that the
//! caller binds. Operations and depth have limits, so that a hostile manifest can only fail.

mod direct;
mod python;

use std::sync::LazyLock;

use indexmap::{IndexMap, IndexSet};
use rhai::packages::{ArithmeticPackage, LogicPackage, Package};
use rhai::{AST, ASTNode, Dynamic, Engine, EvalAltResult, Scope};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use self::direct::{Direct, Name, NoValue, Value};
use super::text::names::did_you_mean;

/// The names that an expression may use, with their values. Later names may be derived from earlier ones.
pub type Bindings = IndexMap<String, i64>;

/// An expression over 64-bit integers, parsed once and evaluated for many bindings.
///
/// Besides the operators of rhai, it may call `ceil_div(a, b)`, `round_up(a, to)`, `min(a, b)`, `max(a, b)` and
/// `is_pow2(a)`.
#[derive(Debug, Clone)]
pub struct Expr {
    text: String,
    ast: AST,
    /// What needs no interpreter. None if it does.
    direct: Option<Direct<Name>>,
}

/// What an expression must evaluate to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedType {
    /// An integer, for [`Expr::int`].
    Int,
    /// True or false, for [`Expr::boolean`].
    Bool,
    /// True, false or an integer, for [`Expr::flag`].
    Flag,
}

/// Why an expression could not be parsed or evaluated, with its text.
#[derive(Debug, Clone, thiserror::Error)]
#[error("expression `{text}`: {problem}")]
pub struct ExprError {
    text: String,
    problem: String,
    cause: ErrorKind,
}

/// What causes an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ErrorKind {
    /// The text.
    Syntax,
    /// A name that is not bound.
    Name,
    /// The types of values, or a function that does not exist. Other numbers would not help.
    Type,
    /// The numbers, as in a division by zero.
    Numbers,
}

impl ErrorKind {
    fn of(error: &EvalAltResult) -> Self {
        match error {
            EvalAltResult::ErrorVariableNotFound(..) => Self::Name,
            EvalAltResult::ErrorFunctionNotFound(..)
            | EvalAltResult::ErrorMismatchDataType(..)
            | EvalAltResult::ErrorMismatchOutputType(..) => Self::Type,
            _ => Self::Numbers,
        }
    }
}

impl ExprError {
    /// Tells whether the expression failed only because a name in it is not bound.
    pub fn is_undefined_name(&self) -> bool {
        self.cause == ErrorKind::Name
    }
}

static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    let mut engine = Engine::new_raw();
    engine.register_global_module(ArithmeticPackage::new().as_shared_module());
    engine.register_global_module(LogicPackage::new().as_shared_module());
    engine.set_max_operations(10_000).set_max_expr_depths(64);
    engine.register_fn("ceil_div", ceil_div);
    engine.register_fn("round_up", round_up);
    engine.register_fn("min", |a: i64, b: i64| a.min(b));
    engine.register_fn("max", |a: i64, b: i64| a.max(b));
    engine.register_fn("is_pow2", is_pow2);
    engine
});

/// The functions in addition to rhai's own.
const FUNCTIONS: [&str; 5] = ["ceil_div", "round_up", "min", "max", "is_pow2"];

/// Returns the function that is nearest to one that does not exist.
fn function_hint(error: &EvalAltResult) -> String {
    let EvalAltResult::ErrorFunctionNotFound(signature, _) = error else { return String::new() };
    let name = signature.split(' ').next().unwrap_or_default();
    // A known function may have arguments of the wrong type or number.
    if FUNCTIONS.contains(&name) { String::new() } else { did_you_mean(name, FUNCTIONS) }
}

fn ceil_div(a: i64, b: i64) -> Result<i64, Box<EvalAltResult>> {
    match b {
        // Adding one cannot overflow: after a division with a remainder, b is above 1 and the quotient below the
        // maximum.
        1.. => Ok(a.div_euclid(b) + i64::from(a.rem_euclid(b) != 0)),
        0 => Err("division by zero".into()),
        _ => Err("division by a negative number".into()),
    }
}

fn round_up(a: i64, to: i64) -> Result<i64, Box<EvalAltResult>> {
    ceil_div(a, to)?.checked_mul(to).ok_or_else(|| "the result is too large".into())
}

fn is_pow2(a: i64) -> bool {
    a > 0 && a & (a - 1) == 0
}

/// Two expressions are equal if their texts are.
impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Serialize for Expr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Expr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl Expr {
    /// Parses `text`, refusing anything that is not one expression.
    pub fn parse(text: &str) -> Result<Self, ExprError> {
        let ast = ENGINE.compile_expression(text).map_err(|error| ExprError {
            text: text.to_owned(),
            problem: error.to_string(),
            cause: ErrorKind::Syntax,
        })?;
        let direct = Direct::of(&ast);
        Ok(Self { text: text.to_owned(), ast, direct })
    }

    /// Returns the expression's source text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the names that the expression uses, in order.
    pub fn names(&self) -> IndexSet<String> {
        let mut names = IndexSet::new();
        self.ast.walk(&mut |path: &[ASTNode<'_>]| {
            if let Some(ASTNode::Expr(rhai::Expr::Variable(variable, ..))) = path.last() {
                names.insert(variable.1.to_string());
            }
            true
        });
        names
    }

    /// Writes the expression in Python. `name` writes a name. None if a name is not known, or if Python has no such
    /// operation.
    pub fn in_python(&self, name: &impl Fn(&str) -> Option<String>) -> Option<String> {
        python::write(self.ast.statements(), name)
    }

    /// Finds the mistakes that do not depend on the values of names: an unknown function, or a result of another type
    /// than `wanted`.
    pub fn check_type(&self, wanted: ExpectedType) -> Result<(), ExprError> {
        // Any number will do, because errors that depend on numbers do not count.
        let bindings = self.names().into_iter().map(|name| (name, 1)).collect();
        let evaluated = match wanted {
            ExpectedType::Int => self.int(&bindings).map(drop),
            ExpectedType::Bool => self.boolean(&bindings).map(drop),
            ExpectedType::Flag => self.flag(&bindings).map(drop),
        };
        evaluated.or_else(|error| if error.cause == ErrorKind::Type { Err(error) } else { Ok(()) })
    }

    /// Evaluates the expression to an integer.
    pub fn int(&self, bindings: &Bindings) -> Result<i64, ExprError> {
        let value = self.eval(bindings)?;
        value.as_int().map_err(|kind| self.wrong_kind("an integer", kind))
    }

    /// Evaluates the expression to a boolean value.
    pub fn boolean(&self, bindings: &Bindings) -> Result<bool, ExprError> {
        let value = self.eval(bindings)?;
        value.as_bool().map_err(|kind| self.wrong_kind("true or false", kind))
    }

    /// Evaluates the expression to a boolean. An integer counts as true unless it is 0.
    pub fn flag(&self, bindings: &Bindings) -> Result<bool, ExprError> {
        let value = self.eval(bindings)?;
        let number = || value.as_int().map(|number| number != 0);
        value.as_bool().or_else(|_| number()).map_err(|kind| self.wrong_kind("true or false", kind))
    }

    fn eval(&self, bindings: &Bindings) -> Result<Dynamic, ExprError> {
        let value_of = |Name(name, _): &Name| bindings.get(name).copied();
        match self.direct.as_ref().map(|direct| direct.eval(&value_of)) {
            Some(Ok(Value::Int(value))) => Ok(value.into()),
            Some(Ok(Value::Bool(value))) => Ok(value.into()),
            Some(Err(NoValue::Unbound(Name(name, position)))) => {
                Err(self.failed(&EvalAltResult::ErrorVariableNotFound(name.clone(), *position)))
            }
            Some(Err(NoValue::Unknown)) | None => self.interpret(bindings),
        }
    }

    /// Replaces the names by their places in bindings. None if the expression needs the interpreter, or another name.
    pub(super) fn placed(&self, bindings: &Bindings) -> Option<Placed> {
        self.direct.as_ref()?.placed(&|name| bindings.get_index_of(name)).map(Placed)
    }

    fn interpret(&self, bindings: &Bindings) -> Result<Dynamic, ExprError> {
        let mut scope = Scope::new();
        for (name, value) in bindings {
            scope.push_constant(name.as_str(), *value);
        }
        ENGINE.eval_ast_with_scope::<Dynamic>(&mut scope, &self.ast).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &EvalAltResult) -> ExprError {
        ExprError {
            text: self.text.clone(),
            problem: format!("{error}{}", function_hint(error)),
            cause: ErrorKind::of(error),
        }
    }

    fn wrong_kind(&self, wanted: &str, got: &str) -> ExprError {
        ExprError { text: self.text.clone(), problem: format!("gives a {got}, not {wanted}"), cause: ErrorKind::Type }
    }
}

/// An expression whose names are places in a list of values. It has no value where the interpreter must find out why.
pub(super) struct Placed(Direct<usize>);

impl Placed {
    /// Evaluates the expression to an integer.
    pub(super) fn int(&self, values: &[i64]) -> Option<i64> {
        match self.0.eval(&|place| values.get(*place).copied()) {
            Ok(Value::Int(value)) => Some(value),
            _ => None,
        }
    }

    /// Evaluates the expression to a boolean value.
    pub(super) fn boolean(&self, values: &[i64]) -> Option<bool> {
        match self.0.eval(&|place| values.get(*place).copied()) {
            Ok(Value::Bool(value)) => Some(value),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bindings(pairs: &[(&str, i64)]) -> Bindings {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn a_constraint_evaluates() {
        let constraint = Expr::parse("2 * STAGES * BC * (D + PAD) * 2 <= smem_limit").unwrap();
        let at = |bc| bindings(&[("STAGES", 2), ("BC", bc), ("D", 64), ("PAD", 8), ("smem_limit", 49152)]);
        assert!(constraint.boolean(&at(64)).unwrap());
        assert!(!constraint.boolean(&at(128)).unwrap());
    }

    #[test]
    fn a_flag_is_a_truth_value_or_a_number() {
        let at = |text: &str| Expr::parse(text).and_then(|expr| expr.flag(&bindings(&[("SPLITS", 2)])));
        assert!(at("SPLITS > 1").unwrap() && at("SPLITS").unwrap());
        assert!(!at("SPLITS > 2").unwrap() && !at("SPLITS - 2").unwrap());
        insta::assert_snapshot!(at("\"yes\"").unwrap_err(), @"expression `\"yes\"`: gives a string, not true or false");
    }

    #[test]
    fn mistakes_are_named_with_the_expression() {
        let at = |text: &str| Expr::parse(text).and_then(|e| e.int(&bindings(&[("A", 1)]))).unwrap_err().to_string();
        insta::assert_snapshot!(at("A +"), @"expression `A +`: Script is incomplete (line 1, position 4)");
        insta::assert_snapshot!(at("A / 0"), @"expression `A / 0`: Division by zero: 1 / 0 (line 1, position 3)");
        insta::assert_snapshot!(at("ceil_div(A, 0)"), @"expression `ceil_div(A, 0)`: Runtime error: division by zero (line 1, position 1)");
        insta::assert_snapshot!(at("A + B"), @"expression `A + B`: Variable not found: B (line 1, position 5)");
        insta::assert_snapshot!(at("A == 1"), @"expression `A == 1`: gives a bool, not an integer");
        insta::assert_snapshot!(at("while true {}"), @"expression `while true {}`: Unexpected 'while' (line 1, position 1)");
        insta::assert_snapshot!(at("9223372036854775807 + A"), @"expression `9223372036854775807 + A`: Addition overflow: 9223372036854775807 + 1 (line 1, position 21)");
    }

    #[test]
    fn all_names_of_an_expression_are_found() {
        let names = |text: &str| Expr::parse(text).unwrap().names().into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(names("if A > 0 { min(B, ceil_div(C, 2)) } else { -D }"), "A B C D");
        assert_eq!(names("A == 1 || !(A < B) && \"E\" == \"F\""), "A B");
        assert_eq!(names("1 + 2"), "");
    }

    #[test]
    fn mistakes_that_no_value_can_repair_are_found_without_values() {
        let check = |text: &str, wanted| Expr::parse(text).unwrap().check_type(wanted).map_err(|e| e.to_string());
        assert_eq!(check("A / (B - 1) + ceil_div(A, B - 1)", ExpectedType::Int), Ok(()));
        assert_eq!(check("A - B", ExpectedType::Flag), Ok(()));
        insta::assert_snapshot!(check("ceildiv(A, 2)", ExpectedType::Int).unwrap_err(), @"expression `ceildiv(A, 2)`: Function not found: ceildiv (i64, i64) (line 1, position 1) (did you mean `ceil_div`?)");
        insta::assert_snapshot!(check("A + 1", ExpectedType::Bool).unwrap_err(), @"expression `A + 1`: gives a i64, not true or false");
        insta::assert_snapshot!(check("A == 1", ExpectedType::Int).unwrap_err(), @"expression `A == 1`: gives a bool, not an integer");
        insta::assert_snapshot!(check("A && B > 0", ExpectedType::Bool).unwrap_err(), @"expression `A && B > 0`: Data type incorrect: i64 (expecting bool) (line 1, position 1)");
        insta::assert_snapshot!(check("if A > 1 { 3 }", ExpectedType::Int).unwrap_err(), @"expression `if A > 1 { 3 }`: gives a (), not an integer");
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "\\PC{0,60}") {
            if let Ok(expr) = Expr::parse(&text) {
                let _ = expr.int(&bindings(&[("A", 3)]));
                let _ = expr.check_type(ExpectedType::Flag);
            }
        }

        #[test]
        fn extreme_numbers_never_panic(a in any::<i64>(), b in any::<i64>()) {
            for text in ["ceil_div(A, B)", "round_up(A, B)", "A * B", "A - B", "A / B", "A % B", "-A", "is_pow2(A)"] {
                let _ = Expr::parse(text).unwrap().int(&bindings(&[("A", a), ("B", b)]));
            }
        }

        #[test]
        fn ceil_div_covers_and_wastes_less_than_one_tile(a in 0_i64..1_000_000, b in 1_i64..1000) {
            let tiles = Expr::parse("ceil_div(A, B)").unwrap().int(&bindings(&[("A", a), ("B", b)])).unwrap();
            prop_assert!(tiles * b >= a && (tiles - 1) * b < a);
        }
    }
}
