//! Parses everything outside kernel bodies: directives, variables, and the heads of kernels.

use super::Problem;
use super::body;
use super::expression::Cursor;
use super::lexer::{Kind, Token};
use super::syntax::{Entry, Function, Source, Variable};
use super::variables::{variable, variable_space};
use crate::program::Space;

/// Parses a whole text.
pub(crate) fn parse<'a>(tokens: &[Token<'a>]) -> Result<Source<'a>, (u32, Problem)> {
    let mut cursor = Cursor::new(tokens);
    let mut source = Source::default();
    while cursor.peek() != Kind::End {
        top_level(&mut cursor, &mut source).map_err(|problem| (cursor.line(), problem))?;
    }
    if source.version == (0, 0) {
        return Err((1, "no `.version`: this is not PTX".into()));
    }
    Ok(source)
}

fn top_level<'a>(cursor: &mut Cursor<'_, 'a>, source: &mut Source<'a>) -> Result<(), Problem> {
    let mut is_extern = false;
    loop {
        let Kind::Dot(name) = cursor.peek() else { return Err(cursor.unexpected("a directive")) };
        if let Some(space) = variable_space(name) {
            source.variables.push(variable(cursor, space, is_extern)?);
            return cursor.expect(b';');
        }
        cursor.next();
        match name {
            "version" => return version(cursor, source),
            "target" => {
                source.target = cursor.word()?;
                while cursor.eat(b',') {
                    cursor.word()?;
                }
                return Ok(());
            }
            "address_size" => {
                return if cursor.integer()? == 64 { Ok(()) } else { Err("an address size other than 64".into()) };
            }
            "extern" => is_extern = true,
            "visible" | "weak" | "common" => {}
            "entry" => {
                source.entries.push(entry(cursor)?);
                return Ok(());
            }
            "func" => {
                source.functions.extend(function(cursor)?);
                return Ok(());
            }
            "file" | "loc" => {
                cursor.skip_line();
                return Ok(());
            }
            "section" => return skip_section(cursor),
            "pragma" | "alias" | "branchtargets" => {
                cursor.skip_statement();
                return Ok(());
            }
            _ => return Err(Problem::Syntax(format!("unknown directive `.{name}`"))),
        }
    }
}

fn version(cursor: &mut Cursor<'_, '_>, source: &mut Source<'_>) -> Result<(), Problem> {
    let Kind::Double(bits) = cursor.peek() else { return Err(cursor.unexpected("a version such as 9.0")) };
    cursor.next();
    let tenths = (f64::from_bits(bits) * 10.0).round() as u32;
    source.version = (tenths / 10, tenths % 10);
    Ok(())
}

fn skip_section(cursor: &mut Cursor<'_, '_>) -> Result<(), Problem> {
    cursor.next();
    cursor.skip_braces()
}

/// Parses a function. Returns None for a declaration without a body.
fn function<'a>(cursor: &mut Cursor<'_, 'a>) -> Result<Option<Function<'a>>, Problem> {
    let results = params(cursor)?;
    let name = cursor.word()?;
    let params = params(cursor)?;
    while let Kind::Dot(directive) = cursor.peek() {
        cursor.next();
        match directive {
            "noreturn" => {}
            "pragma" => cursor.skip_statement(),
            _ => return Err(Problem::Syntax(format!("unknown directive `.{directive}` of a function"))),
        }
    }
    if cursor.eat(b';') {
        return Ok(None);
    }
    let body = body::body(cursor)?;
    Ok(Some(Function { name, results, params, body }))
}

/// Parses the parameters in parentheses, if there are any.
fn params<'a>(cursor: &mut Cursor<'_, 'a>) -> Result<Vec<Variable<'a>>, Problem> {
    let mut params = Vec::new();
    if !cursor.eat(b'(') || cursor.eat(b')') {
        return Ok(params);
    }
    loop {
        if cursor.peek() != Kind::Dot("param") {
            return Err(cursor.unexpected("`.param`"));
        }
        params.push(variable(cursor, Space::Param, false)?);
        if cursor.eat(b')') {
            return Ok(params);
        }
        cursor.expect(b',')?;
    }
}

fn entry<'a>(cursor: &mut Cursor<'_, 'a>) -> Result<Entry<'a>, Problem> {
    let line = cursor.line();
    let name = cursor.word()?;
    let mut entry = Entry {
        line,
        name,
        params: Vec::new(),
        max_threads: None,
        required_block: None,
        required_cluster: None,
        body: Vec::new(),
    };
    entry.params = params(cursor)?;
    performance(cursor, &mut entry)?;
    entry.body = body::body(cursor)?;
    Ok(entry)
}

/// Parses the directives between a kernel's parameters and its body.
fn performance(cursor: &mut Cursor<'_, '_>, entry: &mut Entry<'_>) -> Result<(), Problem> {
    while let Kind::Dot(name) = cursor.peek() {
        cursor.next();
        match name {
            "maxntid" => entry.max_threads = Some(extents(cursor)?),
            "reqntid" => entry.required_block = Some(extents(cursor)?),
            "reqnctapercluster" => entry.required_cluster = Some(extents(cursor)?),
            "minnctapersm" | "maxnctapersm" | "maxnreg" | "maxclusterrank" => {
                cursor.small()?;
            }
            "explicitcluster" | "noreturn" | "blocksareclusters" => {}
            "pragma" => cursor.skip_statement(),
            _ => return Err(Problem::Syntax(format!("unknown directive `.{name}` of a kernel"))),
        }
    }
    Ok(())
}

fn extents(cursor: &mut Cursor<'_, '_>) -> Result<[u32; 3], Problem> {
    let mut extents = [1; 3];
    for (index, extent) in extents.iter_mut().enumerate() {
        if index > 0 && !cursor.eat(b',') {
            break;
        }
        *extent = cursor.small()?;
    }
    Ok(extents)
}
