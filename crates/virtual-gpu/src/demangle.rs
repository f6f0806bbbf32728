//! The names of kernels as they are written in C++.

/// Returns the name that a mangled name stands for (Itanium C++ ABI): namespaces, classes and the function, without
/// template arguments and parameters. Other names are returned as they are.
pub(crate) fn demangled(name: &str) -> String {
    name.strip_prefix("_Z").and_then(written).unwrap_or_else(|| name.to_owned())
}

fn written(mangled: &str) -> Option<String> {
    let Some(mut rest) = mangled.strip_prefix('N') else {
        // `L` marks internal linkage.
        return part(mangled.strip_prefix('L').unwrap_or(mangled)).map(|(name, _)| name.to_owned());
    };
    let mut parts = Vec::new();
    while let Some((name, after)) = part(rest.strip_prefix('L').unwrap_or(rest)) {
        // The compiler names anonymous namespaces after the file.
        let is_anonymous = name.starts_with("_GLOBAL__N_") || name.starts_with("_INTERNAL_");
        parts.push(if is_anonymous { "(anonymous namespace)" } else { name });
        rest = after;
    }
    (!parts.is_empty()).then(|| parts.join("::"))
}

/// Reads a length and as many characters.
fn part(text: &str) -> Option<(&str, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let length: usize = text.get(..digits)?.parse().ok()?;
    Some((text.get(digits..digits.checked_add(length)?)?, &text[digits + length..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_in_the_source() {
        for (mangled, name) in [
            ("saxpy", "saxpy"),
            ("_Z5saxpyifPKfPf", "saxpy"),
            ("_Z6reduceIfLj512EEvPT_S1_j", "reduce"),
            ("_ZN4math5outer3addEPfi", "math::outer::add"),
            ("_ZN52_GLOBAL__N__00000000_9_kernel_cu_1d6925ec_12345678905innerEv", "(anonymous namespace)::inner"),
            ("_Zbroken", "_Zbroken"),
            ("_Z99short", "_Z99short"),
        ] {
            assert_eq!(demangled(mangled), name);
        }
    }
}
