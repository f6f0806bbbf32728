//! Parses a kernel's body: declarations, labels and instructions.

use super::Problem;
use super::expression::Cursor;
use super::lexer::Kind;
use super::operand::operand;
use super::syntax::{Operand, Statement, Written};
use super::variables::{declared_type, variable, variable_space};

/// Maximum nesting of `{ }`.
const DEEPEST: usize = 64;

/// Parses `{ ... }`. The outermost braces produce no mark.
pub(crate) fn body<'a>(cursor: &mut Cursor<'_, 'a>) -> Result<Vec<Statement<'a>>, Problem> {
    cursor.expect(b'{')?;
    let mut statements = Vec::new();
    let mut depth = 1;
    loop {
        match cursor.peek() {
            Kind::Punct(b'{') => {
                depth += 1;
                if depth > DEEPEST {
                    return Err("scopes nested too deep".into());
                }
                statements.push(Statement::Open);
                cursor.next();
            }
            Kind::Punct(b'}') => {
                cursor.next();
                depth -= 1;
                if depth == 0 {
                    return Ok(statements);
                }
                statements.push(Statement::Close);
            }
            Kind::Punct(b';') => {
                cursor.next();
            }
            Kind::Dot(name) => directive(cursor, name, &mut statements)?,
            Kind::Word(name) if cursor.ahead(1) == Kind::Punct(b':') => {
                let line = cursor.line();
                cursor.next();
                cursor.next();
                label(cursor, line, name, &mut statements)?;
            }
            Kind::Word(_) | Kind::Punct(b'@') => statements.push(Statement::Instruction(instruction(cursor)?)),
            _ => return Err(cursor.unexpected("an instruction")),
        }
    }
}

fn directive<'a>(
    cursor: &mut Cursor<'_, 'a>,
    name: &'a str,
    statements: &mut Vec<Statement<'a>>,
) -> Result<(), Problem> {
    if let Some(space) = variable_space(name) {
        statements.push(Statement::Variable(variable(cursor, space, false)?));
        return cursor.expect(b';');
    }
    match name {
        "reg" => registers(cursor, statements),
        "loc" | "file" => {
            cursor.next();
            cursor.skip_line();
            Ok(())
        }
        "pragma" | "callprototype" => {
            cursor.skip_statement();
            Ok(())
        }
        "extern" => {
            cursor.next();
            let Kind::Dot(next) = cursor.peek() else { return Err(cursor.unexpected("a state space")) };
            let space = variable_space(next).ok_or_else(|| cursor.unexpected("a state space"))?;
            statements.push(Statement::Variable(variable(cursor, space, true)?));
            cursor.expect(b';')
        }
        _ => Err(Problem::Syntax(format!("unknown directive `.{name}` in a kernel"))),
    }
}

fn label<'a>(
    cursor: &mut Cursor<'_, 'a>,
    line: u32,
    name: &'a str,
    statements: &mut Vec<Statement<'a>>,
) -> Result<(), Problem> {
    if !cursor.eat_dot("branchtargets") {
        statements.push(Statement::Label(line, name));
        return Ok(());
    }
    let mut targets = vec![cursor.word()?];
    while cursor.eat(b',') {
        targets.push(cursor.word()?);
    }
    statements.push(Statement::Targets(line, name, targets));
    cursor.expect(b';')
}

fn registers<'a>(cursor: &mut Cursor<'_, 'a>, statements: &mut Vec<Statement<'a>>) -> Result<(), Problem> {
    cursor.next();
    let Kind::Dot(name) = cursor.peek() else { return Err(cursor.unexpected("a type")) };
    let ty = declared_type(name).ok_or_else(|| Problem::Syntax(format!("unknown type `.{name}` of a register")))?;
    cursor.next();
    loop {
        let line = cursor.line();
        let name = cursor.word()?;
        let mut count = None;
        if cursor.eat(b'<') {
            count = Some(u64::from(cursor.small()?));
            cursor.expect(b'>')?;
        }
        statements.push(Statement::Registers { line, ty, name, count });
        if !cursor.eat(b',') {
            return cursor.expect(b';');
        }
    }
}

fn instruction<'a>(cursor: &mut Cursor<'_, 'a>) -> Result<Written<'a>, Problem> {
    let mut guard = None;
    if cursor.eat(b'@') {
        let negated = cursor.eat(b'!');
        guard = Some((cursor.word()?, negated));
    }
    let line = cursor.line();
    let opcode = cursor.word()?;
    if opcode == "call" || opcode.starts_with("call.") {
        return call(cursor, line, guard, opcode);
    }
    let mut operands = Vec::new();
    if !cursor.eat(b';') {
        loop {
            operands.push(operand(cursor)?);
            if !cursor.eat(b',') {
                break;
            }
        }
        if cursor.peek() != Kind::Punct(b';') {
            return Err(cursor.unexpected(&format!("`;` after `{opcode}`")));
        }
        cursor.next();
    }
    Ok(Written { line, guard, opcode, operands })
}

/// Parses a call as an instruction with three operands: the function, its results and its arguments. Which functions can
/// be called is decided later.
fn call<'a>(
    cursor: &mut Cursor<'_, 'a>,
    line: u32,
    guard: Option<(&'a str, bool)>,
    opcode: &'a str,
) -> Result<Written<'a>, Problem> {
    let results = list(cursor)?;
    if !results.is_empty() {
        cursor.expect(b',')?;
    }
    let function = cursor.word()?;
    let arguments = if cursor.eat(b',') { list(cursor)? } else { Vec::new() };
    // The prototype of an indirect call may follow.
    cursor.skip_statement();
    let operands = vec![Operand::Name(function, 0), Operand::Vector(results), Operand::Vector(arguments)];
    Ok(Written { line, guard, opcode, operands })
}

/// Parses `(a, b)`, if it is there.
fn list<'a>(cursor: &mut Cursor<'_, 'a>) -> Result<Vec<Operand<'a>>, Problem> {
    let mut operands = Vec::new();
    if !cursor.eat(b'(') || cursor.eat(b')') {
        return Ok(operands);
    }
    loop {
        operands.push(operand(cursor)?);
        if cursor.eat(b')') {
            return Ok(operands);
        }
        cursor.expect(b',')?;
    }
}
