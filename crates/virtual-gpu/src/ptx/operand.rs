//! Parses operands.

use super::Problem;
use super::expression::Cursor;
use super::lexer::Kind;
use super::syntax::Operand;

/// Maximum parts of a vector; no instruction takes more than 128.
const MAX_CHARS: usize = 256;

/// Parses one operand.
pub(crate) fn operand<'a>(cursor: &mut Cursor<'_, 'a>) -> Result<Operand<'a>, Problem> {
    match cursor.peek() {
        Kind::Punct(b'{') => Ok(Operand::Vector(vector(cursor)?)),
        Kind::Punct(b'[') => address(cursor),
        _ => scalar(cursor),
    }
}

fn vector<'a>(cursor: &mut Cursor<'_, 'a>) -> Result<Vec<Operand<'a>>, Problem> {
    cursor.expect(b'{')?;
    let mut parts = Vec::new();
    loop {
        parts.push(scalar(cursor)?);
        if cursor.eat(b'}') {
            return Ok(parts);
        }
        if parts.len() == MAX_CHARS {
            return Err("a vector with too many parts".into());
        }
        cursor.expect(b',')?;
    }
}

fn scalar<'a>(cursor: &mut Cursor<'_, 'a>) -> Result<Operand<'a>, Problem> {
    match cursor.peek() {
        Kind::Word("WARP_SZ") => cursor.integer().map(Operand::Int),
        Kind::Word(name) => {
            cursor.next();
            if cursor.eat(b'|') {
                return Ok(Operand::Pair(name, cursor.word()?));
            }
            Ok(Operand::Name(name, addend(cursor)?))
        }
        Kind::Punct(b'!') => {
            cursor.next();
            match cursor.peek() {
                Kind::Word(name) => {
                    cursor.next();
                    Ok(Operand::Not(name))
                }
                _ => Ok(Operand::Int(i64::from(cursor.integer()? == 0))),
            }
        }
        Kind::Single(bits) => {
            cursor.next();
            Ok(Operand::Single(bits))
        }
        Kind::Double(bits) => {
            cursor.next();
            Ok(Operand::Double(bits))
        }
        Kind::Punct(b'-') => match cursor.ahead(1) {
            Kind::Single(bits) => {
                cursor.next();
                cursor.next();
                Ok(Operand::Single(bits ^ 0x8000_0000))
            }
            Kind::Double(bits) => {
                cursor.next();
                cursor.next();
                Ok(Operand::Double(bits ^ (1 << 63)))
            }
            _ => cursor.integer().map(Operand::Int),
        },
        _ => cursor.integer().map(Operand::Int),
    }
}

/// Parses `+4` or `-4` after a name, if present.
pub(crate) fn addend(cursor: &mut Cursor<'_, '_>) -> Result<i64, Problem> {
    match cursor.peek() {
        Kind::Punct(b'+') => {
            cursor.next();
            cursor.integer()
        }
        Kind::Punct(b'-') => cursor.integer(),
        _ => Ok(0),
    }
}

fn address<'a>(cursor: &mut Cursor<'_, 'a>) -> Result<Operand<'a>, Problem> {
    cursor.expect(b'[')?;
    let operand = match cursor.peek() {
        Kind::Word(name) if name != "WARP_SZ" => {
            cursor.next();
            let offset = addend(cursor)?;
            if cursor.eat(b',') {
                Operand::Tensor(name, offset, vector(cursor)?)
            } else {
                Operand::Address(Some(name), offset)
            }
        }
        _ => Operand::Address(None, cursor.integer()?),
    };
    cursor.expect(b']')?;
    Ok(operand)
}
