//! Writes expressions of Python as those of optloop.

use super::Python;
use crate::error::{Error, error};

/// How tightly an operator of optloop's expressions binds.
fn strength(sign: &str) -> u8 {
    match sign {
        "||" => 1,
        "&&" => 2,
        "==" | "!=" => 3,
        "<" | ">" | "<=" | ">=" => 4,
        "+" | "-" => 5,
        _ => 6,
    }
}

/// The strength of what needs no brackets.
const ATOM: u8 = 9;

/// The value of a list's item, by the list's name, for names such as `ProblemSize`.
pub(super) type Items<'a> = &'a dyn Fn(&str, usize) -> Option<String>;

impl Python {
    /// Writes a number as an expression of optloop. `items` resolves `ProblemSize[0]`.
    pub fn number(&self, items: Items<'_>) -> Result<String, Error> {
        Ok(self.written(false, items)?.0)
    }

    /// Writes a condition as an expression of optloop.
    pub fn condition(&self, items: Items<'_>) -> Result<String, Error> {
        Ok(self.written(true, items)?.0)
    }

    /// Tells whether it contains `/`, which is a true division in Python.
    pub fn divides(&self) -> bool {
        match self {
            Self::Both(sign, a, b) => *sign == "/" || a.divides() || b.divides(),
            Self::Power(base, _) => base.divides(),
            Self::Not(inner) | Self::Negative(inner) => inner.divides(),
            Self::Compared(first, rest) => first.divides() || rest.iter().any(|(_, other)| other.divides()),
            Self::Call(_, items) | Self::List(items) => items.iter().any(Self::divides),
            Self::Item(..) | Self::Each { .. } | Self::Number(_) | Self::Text(_) | Self::Name(_) => false,
        }
    }

    fn is_condition(&self) -> bool {
        matches!(self, Self::Not(_) | Self::Compared(..) | Self::Both("&&" | "||", ..))
    }

    /// Writes it as a condition or as a number, with the strength of its outermost operator.
    fn written(&self, as_condition: bool, items: Items<'_>) -> Result<(String, u8), Error> {
        let (text, strength) = self.plain(items)?;
        Ok(match (self.is_condition(), as_condition) {
            (false, true) => (format!("{} != 0", bracketed((text, strength), 4)), 3),
            (true, false) => (format!("(if {text} {{ 1 }} else {{ 0 }})"), ATOM),
            _ => (text, strength),
        })
    }

    fn plain(&self, items: Items<'_>) -> Result<(String, u8), Error> {
        let number = |of: &Self| of.written(false, items);
        Ok(match self {
            Self::Number(number) => (number.to_string(), ATOM),
            Self::Name(name) => (name.clone(), ATOM),
            Self::Item(base, index) => (self.item(base, index, items)?, ATOM),
            Self::Call(name, arguments) => (called(name, arguments, items)?, ATOM),
            Self::Not(inner) => (format!("!{}", bracketed(inner.written(true, items)?, ATOM)), ATOM),
            Self::Negative(inner) => (format!("-{}", bracketed(number(inner)?, ATOM)), 7),
            Self::Power(base, power) => (raised(base, power, items)?, 6),
            Self::Both(sign @ ("&&" | "||"), a, b) => {
                let own = strength(sign);
                let part = |of: &Self| Ok::<_, String>(bracketed(of.written(true, items)?, own));
                (format!("{} {sign} {}", part(a)?, part(b)?), own)
            }
            Self::Both(sign, a, b) => {
                let own = strength(sign);
                (format!("{} {sign} {}", bracketed(number(a)?, own), bracketed(number(b)?, own + 1)), own)
            }
            Self::Compared(first, rest) => {
                let mut left = first.as_ref();
                let mut parts = Vec::new();
                for (sign, right) in rest {
                    parts.push(compared(left, sign, right, items)?);
                    left = right;
                }
                match &mut parts[..] {
                    [only] => std::mem::take(only),
                    several => {
                        (several.iter().map(|part| bracketed(part.clone(), 3)).collect::<Vec<_>>().join(" && "), 2)
                    }
                }
            }
            Self::Text(text) => return Err(error!("the string `{text}` is no number")),
            Self::List(_) | Self::Each { .. } => return Err(Error::new("a list is supported after `in` only")),
        })
    }

    fn item(&self, base: &Self, index: &Self, items: Items<'_>) -> Result<String, Error> {
        match (base, index) {
            (_, Self::Text(name)) => Ok(name.clone()),
            (Self::Name(list), Self::Number(place)) => usize::try_from(*place)
                .ok()
                .and_then(|place| items(list, place))
                .ok_or_else(|| error!("`{list}[{place}]` is not known")),
            _ => Err(Error::new("an index is supported as p[\"NAME\"] or ProblemSize[0] only")),
        }
    }
}

/// Writes a power as a product.
fn raised(base: &Python, power: &Python, items: Items<'_>) -> Result<String, Error> {
    let Python::Number(power @ 1..=8) = power else {
        return Err(Error::new("`**` is supported with a power from 1 to 8 only"));
    };
    let base = bracketed(base.written(false, items)?, ATOM);
    Ok(vec![base; *power as usize].join(" * "))
}

fn compared(left: &Python, sign: &str, right: &Python, items: Items<'_>) -> Result<(String, u8), Error> {
    let left = left.written(false, items)?;
    if !sign.ends_with("in") {
        let own = strength(sign);
        return Ok((
            format!("{} {sign} {}", bracketed(left, own + 1), bracketed(right.written(false, items)?, own + 1)),
            own,
        ));
    }
    let Python::List(choices) = right else { return Err(Error::new("`in` is supported with a list only")) };
    let left = bracketed(left, 4);
    let (equals, joined) = if sign == "in" { ("==", " || ") } else { ("!=", " && ") };
    let one = |choice: &Python| -> Result<String, Error> {
        Ok(format!("{left} {equals} {}", bracketed(choice.written(false, items)?, 4)))
    };
    let all = choices.iter().map(one).collect::<Result<Vec<_>, _>>()?;
    match all.len() {
        0 => Err(Error::new("`in` is supported with a list that is not empty")),
        1 => Ok((all.concat(), 3)),
        _ => Ok((all.join(joined), if sign == "in" { 1 } else { 2 })),
    }
}

fn called(name: &str, arguments: &[Python], items: Items<'_>) -> Result<String, Error> {
    let known = match name {
        // Numbers are whole already.
        "int" => "",
        "min" | "max" if arguments.len() == 2 => name,
        // Of the values of a parameter that shapes depend on, which has one.
        "min" | "max" if arguments.len() == 1 => "",
        _ => return Err(error!("the function `{name}` is not supported")),
    };
    let arguments = arguments.iter().map(|one| one.number(items)).collect::<Result<Vec<_>, _>>()?;
    Ok(format!("{known}({})", arguments.join(", ")))
}

fn bracketed((text, strength): (String, u8), least: u8) -> String {
    if strength < least { format!("({text})") } else { text }
}
