//! The sections of a CUBIN, an ELF image.

/// Sections that say only where code comes from, or how other sections are called.
const ABOUT_CODE: [&str; 8] =
    [".debug", ".rela.debug", ".nv_debug", ".rela.nv_debug", ".note", ".strtab", ".symtab", ".shstrtab"];

/// Returns the contents of the sections of a CUBIN that determine what it does, in order. Names, lines of the source
/// and other debug information are left out. An image that is no ELF counts as one section.
pub fn code(cubin: &[u8]) -> Vec<&[u8]> {
    sections(cubin).unwrap_or_else(|| vec![cubin])
}

fn sections(cubin: &[u8]) -> Option<Vec<&[u8]>> {
    let number = |at: usize, bytes: usize| {
        let bytes = cubin.get(at..at.checked_add(bytes)?)?;
        Some(bytes.iter().rev().fold(0_usize, |number, &byte| number << 8 | usize::from(byte)))
    };
    if cubin.get(..5)? != b"\x7fELF\x02" {
        return None;
    }
    // ELF-64: where the section headers are, their size, their number, and which of them has the names.
    let (headers, size, count, names) = (number(40, 8)?, number(58, 2)?, number(60, 2)?, number(62, 2)?);
    let header = |index: usize| {
        let at = headers.checked_add(index.checked_mul(size)?)?;
        cubin.get(at..at.checked_add(size)?).map(|_| at)
    };
    let contents = |index: usize| {
        let at = header(index)?;
        let (from, bytes) = (number(at + 24, 8)?, number(at + 32, 8)?);
        // Of static shared memory, there is only the size.
        let is_empty = number(at + 4, 4)? == NO_BITS;
        if is_empty { cubin.get(at + 32..at + 40) } else { cubin.get(from..from.checked_add(bytes)?) }
    };
    let all_names = contents(names)?;
    let mut found = Vec::new();
    for index in 0..count {
        let name = all_names.get(number(header(index)?, 4)?..)?;
        let name = &name[..name.iter().position(|&byte| byte == 0)?];
        if !ABOUT_CODE.iter().any(|prefix| name.starts_with(prefix.as_bytes())) {
            found.push(contents(index)?);
        }
    }
    Some(found)
}

/// The type of a section without contents in the file.
const NO_BITS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds an ELF image with these sections. The names come last.
    fn image(sections: &[(&str, &[u8])]) -> Vec<u8> {
        let mut names = b"\0.shstrtab\0".to_vec();
        let (mut body, mut headers) = (Vec::new(), Vec::new());
        let mut header = |name: usize, from: usize, bytes: usize| {
            let mut header = [0_u8; 64];
            header[..4].copy_from_slice(&(name as u32).to_le_bytes());
            header[24..32].copy_from_slice(&(from as u64).to_le_bytes());
            header[32..40].copy_from_slice(&(bytes as u64).to_le_bytes());
            headers.extend(header);
        };
        for (name, contents) in sections {
            header(names.len(), 64 + body.len(), contents.len());
            names.extend(name.bytes().chain([0]));
            body.extend(*contents);
        }
        header(1, 64 + body.len(), names.len());
        body.extend(names);
        let mut image = b"\x7fELF\x02".to_vec();
        image.resize(64, 0);
        image[40..48].copy_from_slice(&(64 + body.len() as u64).to_le_bytes());
        let count = sections.len() as u16;
        for (at, number) in [(58, 64), (60, count + 1), (62, count)] {
            image[at..at + 2].copy_from_slice(&number.to_le_bytes());
        }
        [image, body, headers].concat()
    }

    #[test]
    fn lines_of_the_source_are_no_code() {
        let plain = image(&[(".text.k", b"code"), (".nv.constant0.k", b"12"), (".debug_frame", b"a")]);
        let lined = image(&[(".debug_line", b"7"), (".text.k", b"code"), (".nv.constant0.k", b"12")]);
        assert_eq!(code(&plain), [b"code".as_slice(), b"12"]);
        assert_eq!(code(&plain), code(&lined));
        assert_ne!(code(&plain), code(&image(&[(".text.k", b"Code"), (".nv.constant0.k", b"12")])));
    }

    #[test]
    fn more_shared_memory_is_another_code() {
        let with = |bytes: &[u8]| {
            let mut image = image(&[(".nv.shared.k", bytes), (".text.k", b"code")]);
            let headers = usize::from_le_bytes(image[40..48].try_into().unwrap());
            image[headers + 4] = NO_BITS as u8;
            image
        };
        assert_eq!(code(&with(b"1234")), code(&with(b"5678")), "it has no contents");
        assert_ne!(code(&with(b"1234")), code(&with(b"12345678")));
    }

    #[test]
    fn a_damaged_image_is_one_section() {
        let image = image(&[(".text.k", b"code")]);
        for end in [0, 5, 60, image.len() - 1] {
            assert_eq!(code(&image[..end]), [&image[..end]]);
        }
    }
}
