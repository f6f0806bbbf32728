//! The sizes of registers, from their declarations.

use std::collections::HashMap;

use super::statement::NUMBERED;

/// The bits of each register, by name or by the part of the name before its number.
#[derive(Debug, Default)]
pub(super) struct Registers<'a>(HashMap<&'a str, u32>);

impl<'a> Registers<'a> {
    /// Reads a declaration, such as `.reg .b32 %r<10>;` or `.reg .pred p, q;`.
    pub fn declare(&mut self, declaration: &'a str) {
        let Some((kind, names)) = declared(declaration) else { return };
        // A predicate has no size.
        let bits = kind.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0);
        self.0.extend(names.map(|(name, _)| (name, bits)));
    }

    /// Returns the bits of a register; 0 if it is a predicate or not known.
    pub fn bits(&self, register: &str) -> u32 {
        let register = register.split(NUMBERED).next().unwrap_or_default();
        let family = register.trim_end_matches(|c: char| c.is_ascii_digit());
        self.0.get(register).or_else(|| self.0.get(family)).copied().unwrap_or_default()
    }
}

/// Returns the type of the registers in a declaration, and their names. In `%r<10>`, the name stands before a number below 10.
pub(super) fn declared(declaration: &str) -> Option<(&str, impl Iterator<Item = (&str, Option<u32>)>)> {
    let mut words = declaration.trim().trim_end_matches(';').splitn(3, char::is_whitespace).skip(1);
    let (kind, names) = (words.next()?, words.next()?);
    let names = names.split(',').map(|text| match text.split_once('<') {
        Some((name, count)) => (name.trim(), count.trim().trim_end_matches('>').trim().parse().ok()),
        None => (text.trim(), None),
    });
    Some((kind, names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_has_the_size_of_its_declaration() {
        let mut registers = Registers::default();
        for declaration in ["\t.reg .b16 \t%rs<455>;", ".reg .f32 %f<8>;", ".reg .pred p, q;", ".reg .b64 wide;"] {
            registers.declare(declaration);
        }
        assert_eq!(["%rs12", "%f1", "q", "wide", "%r1"].map(|name| registers.bits(name)), [16, 32, 0, 64, 0]);
    }
}
