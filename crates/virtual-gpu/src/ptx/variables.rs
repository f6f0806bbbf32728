//! Parses variables and their initialisers.

use super::Problem;
use super::expression::Cursor;
use super::lexer::Kind;
use super::operand::{addend, operand};
use super::syntax::{Initial, Operand, Variable};
use crate::program::{Space, Ty};

/// Maximum bytes of one variable.
const LARGEST: u64 = 1 << 30;

/// Returns the state space of a variable declared with `.name`.
pub(crate) fn variable_space(name: &str) -> Option<Space> {
    Some(match name {
        "global" => Space::Global,
        "const" => Space::Const,
        "shared" => Space::Shared,
        "local" => Space::Local,
        "param" => Space::Param,
        _ => return None,
    })
}

/// Returns the type that `.name` names in a declaration.
pub(crate) fn declared_type(name: &str) -> Option<Ty> {
    Some(match name {
        "pred" => Ty::Pred,
        "b8" => Ty::B8,
        "u8" => Ty::U8,
        "s8" => Ty::S8,
        "b16" => Ty::B16,
        "u16" => Ty::U16,
        "s16" => Ty::S16,
        "f16" => Ty::F16,
        "bf16" => Ty::Bf16,
        "b32" => Ty::B32,
        "u32" => Ty::U32,
        "s32" => Ty::S32,
        "f32" => Ty::F32,
        "f16x2" => Ty::F16x2,
        "bf16x2" => Ty::Bf16x2,
        "b64" => Ty::B64,
        "u64" => Ty::U64,
        "s64" => Ty::S64,
        "f64" => Ty::F64,
        "b128" => Ty::B128,
        _ => return None,
    })
}

/// Parses a variable from its space to the end of its initialiser.
pub(crate) fn variable<'a>(
    cursor: &mut Cursor<'_, 'a>,
    space: Space,
    is_extern: bool,
) -> Result<Variable<'a>, Problem> {
    cursor.next();
    let line = cursor.line();
    let (mut align, mut ty, mut vector) = (None, None, 1);
    while let Kind::Dot(name) = cursor.peek() {
        cursor.next();
        match name {
            "align" => align = Some(cursor.small()?),
            "v2" => vector = 2,
            "v4" => vector = 4,
            // The target of a pointer parameter does not affect how it is passed.
            "ptr" => pointer(cursor)?,
            "attribute" => skip_parentheses(cursor)?,
            _ => match declared_type(name) {
                Some(declared) if declared != Ty::Pred => ty = Some(declared),
                _ => return Err(Problem::Syntax(format!("unknown type `.{name}` of a variable"))),
            },
        }
    }
    let element = ty.ok_or("a variable without a type")?.bytes() * vector;
    let align = align.unwrap_or(element);
    if !align.is_power_of_two() || align > 4096 {
        return Err(Problem::Syntax(format!("an alignment of {align}")));
    }
    let name = cursor.word()?;
    let strides = dimensions(cursor, u64::from(element))?;
    let bytes = strides[0];
    let mut variable = Variable { line, space, name, align, element, bytes, strides, is_extern, initial: Vec::new() };
    if cursor.eat(b'=') {
        initialiser(cursor, &mut variable)?;
    }
    Ok(variable)
}

fn pointer(cursor: &mut Cursor<'_, '_>) -> Result<(), Problem> {
    while let Kind::Dot(name) = cursor.peek() {
        match name {
            "global" | "const" | "shared" | "local" => {
                cursor.next();
            }
            "align" => {
                cursor.next();
                cursor.small()?;
            }
            _ => break,
        }
    }
    Ok(())
}

fn skip_parentheses(cursor: &mut Cursor<'_, '_>) -> Result<(), Problem> {
    cursor.expect(b'(')?;
    while !matches!(cursor.peek(), Kind::Punct(b')') | Kind::End) {
        cursor.next();
    }
    cursor.expect(b')')
}

/// Parses `[2][3]`: bytes of the whole, of a row, ..., of an element.
fn dimensions(cursor: &mut Cursor<'_, '_>, element: u64) -> Result<Vec<u64>, Problem> {
    let mut counts = Vec::new();
    while cursor.eat(b'[') {
        let open = cursor.peek() == Kind::Punct(b']') && counts.is_empty();
        counts.push(if open { 0 } else { u64::from(cursor.small()?) });
        cursor.expect(b']')?;
        if counts.len() > 16 {
            return Err("an array of more than 16 dimensions".into());
        }
    }
    let mut strides = vec![element];
    for count in counts.iter().rev() {
        let bytes = strides[strides.len() - 1].saturating_mul(*count);
        if bytes > LARGEST {
            return Err(Problem::Syntax(format!("a variable of more than {LARGEST} bytes")));
        }
        strides.push(bytes);
    }
    strides.reverse();
    Ok(strides)
}

/// Parses an initialiser after `=`: one value, or values in braces, nested like the dimensions.
fn initialiser<'a>(cursor: &mut Cursor<'_, 'a>, variable: &mut Variable<'a>) -> Result<(), Problem> {
    let mut starts: Vec<u64> = Vec::new();
    let mut at = 0;
    loop {
        if cursor.eat(b'{') {
            if starts.len() + 1 >= variable.strides.len().max(2) {
                return Err("an initialiser nested deeper than its array".into());
            }
            starts.push(at);
            continue;
        }
        // The code below closes a list that is empty or ends with a comma.
        if starts.is_empty() || cursor.peek() != Kind::Punct(b'}') {
            let value = initial_value(cursor)?;
            variable.initial.push(Initial { offset: at, value });
            at += u64::from(variable.element);
        }
        while !starts.is_empty() && cursor.eat(b'}') {
            at = starts.pop().unwrap_or(0).saturating_add(variable.strides[starts.len()]);
        }
        if starts.is_empty() {
            return Ok(());
        }
        cursor.expect(b',')?;
    }
}

fn initial_value<'a>(cursor: &mut Cursor<'_, 'a>) -> Result<Operand<'a>, Problem> {
    if let (Kind::Word("generic"), Kind::Punct(b'(')) = (cursor.peek(), cursor.ahead(1)) {
        cursor.next();
        cursor.next();
        let name = cursor.word()?;
        cursor.expect(b')')?;
        return Ok(Operand::Name(name, addend(cursor)?));
    }
    operand(cursor)
}
