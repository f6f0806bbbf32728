//! Reads arrays from `.npy` and `.safetensors` files.

use std::collections::HashMap;
use std::ops::Range;

use serde::Deserialize;

use crate::domain::op::Dtype;
use crate::error::{Error, error};

/// How a `.npy` file begins.
const NPY: &[u8] = b"\x93NUMPY";

/// The longest header of a file. Headers of large models have some hundred KiB.
const MAX_HEADER_BYTES: usize = 16 << 20;

/// The most numbers that the files of an op may have together. They stay in the memory, 1 GiB of it at most.
pub(super) const MAX_GIVEN: usize = 1 << 28;

/// An array of a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Array {
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    pub values: Vec<f32>,
}

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [usize; 2],
}

/// Reads an array of at most some numbers from the bytes of a file. `tensor` names the array in a file of several. The error is
/// a predicate, such as "has no tensor `w`".
pub(super) fn read(bytes: &[u8], tensor: Option<&str>, most: usize) -> Result<Array, Error> {
    let (dtype, shape, data) = match (bytes.starts_with(NPY), tensor) {
        (true, None) => npy(bytes)?,
        (true, Some(name)) => {
            return Err(error!("is a .npy file, which has one array: leave out tensor = \"{name}\""));
        }
        (false, tensor) => safetensors(bytes, tensor)?,
    };
    let elements = shape.iter().try_fold(1_usize, |all, extent| all.checked_mul(*extent));
    let data = bytes.get(data).filter(|data| elements.and_then(|it| it.checked_mul(dtype.bytes())) == Some(data.len()));
    let data = data.ok_or("is shorter or longer than its header says")?;
    let kept = data.len() / dtype.slot_bytes();
    if kept > most {
        return Err(error!("has more numbers than {MAX_GIVEN}, the limit for the files of an op together"));
    }
    let mut values = vec![0.0; kept];
    dtype.decode(data, &mut values);
    let is_number = |value: &f32| dtype.is_integer() || value.is_finite();
    if let Some(at) = values.iter().position(|value| !is_number(value)) {
        return Err(error!("has {} at element {at}, but inputs must be finite", values[at]));
    }
    Ok(Array { dtype, shape, values })
}

type Found = (Dtype, Vec<usize>, Range<usize>);

/// Reads the header of a `.npy` file: `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`.
fn npy(bytes: &[u8]) -> Result<Found, Error> {
    let broken = "has a header that is not of a .npy file";
    let (length, begin) = match bytes.get(6).ok_or(broken)? {
        1 => (bytes.get(8..10).map(|it| usize::from(u16::from_le_bytes([it[0], it[1]]))), 10),
        2 | 3 => (bytes.get(8..12).map(|it| u32::from_le_bytes([it[0], it[1], it[2], it[3]]) as usize), 12),
        version => return Err(error!("has version {version} of .npy, which is not known")),
    };
    let end = begin + length.filter(|length| *length <= MAX_HEADER_BYTES).ok_or(broken)?;
    let header = bytes.get(begin..end).and_then(|header| std::str::from_utf8(header).ok()).ok_or(broken)?;
    let after = |key: &str| header.split_once(&format!("'{key}':")).map(|(_, after)| after.trim_start());
    let descr = after("descr").and_then(|rest| rest.strip_prefix('\'')?.split_once('\'')).ok_or(broken)?.0;
    let dtype = match descr {
        "<f2" => Dtype::F16,
        "<f4" => Dtype::F32,
        "<f8" => Dtype::F64,
        "<i4" => Dtype::I32,
        "<u4" => Dtype::U32,
        "<i8" => Dtype::I64,
        "|i1" => Dtype::I8,
        "|u1" => Dtype::U8,
        "|b1" => Dtype::Bool,
        other => return Err(error!("has elements of type {other}, which is not supported")),
    };
    if !after("fortran_order").ok_or(broken)?.starts_with("False") {
        return Err(Error::new("is in Fortran order: save numpy.ascontiguousarray of it"));
    }
    let shape = after("shape").and_then(|rest| rest.strip_prefix('(')?.split_once(')')).ok_or(broken)?.0;
    let extents = shape.split(',').map(str::trim).filter(|extent| !extent.is_empty());
    let shape = extents.map(str::parse).collect::<Result<Vec<usize>, _>>().map_err(|_| broken)?;
    Ok((dtype, shape, end..bytes.len()))
}

/// Reads the header of a `.safetensors` file: its length, and a JSON object with an entry for each tensor.
fn safetensors(bytes: &[u8], tensor: Option<&str>) -> Result<Found, Error> {
    let broken = "is neither a .npy nor a .safetensors file";
    let length = bytes.first_chunk::<8>().map(|length| u64::from_le_bytes(*length)).ok_or(broken)?;
    let length = usize::try_from(length).ok().filter(|length| *length <= MAX_HEADER_BYTES).ok_or(broken)?;
    let header = bytes.get(8..8 + length).ok_or(broken)?;
    let mut entries: HashMap<String, serde_json::Value> = serde_json::from_slice(header).map_err(|_| broken)?;
    entries.remove("__metadata__");
    let mut names: Vec<&str> = entries.keys().map(String::as_str).collect();
    names.sort_unstable();
    let name = match (tensor, &names[..]) {
        (Some(name), _) => name,
        (None, [only]) => only,
        (None, several) => {
            return Err(error!("has the tensors {}: choose one with tensor = \"…\"", several.join(", ")));
        }
    };
    let entry = entries.get(name).ok_or_else(|| error!("has no tensor `{name}`, but {}", names.join(", ")))?;
    let entry: Entry = serde_json::from_value(entry.clone()).map_err(|_| broken)?;
    let dtype = match entry.dtype.as_str() {
        "F16" => Dtype::F16,
        "BF16" => Dtype::Bf16,
        "F32" => Dtype::F32,
        "F64" => Dtype::F64,
        "F8_E4M3" => Dtype::E4m3,
        "F8_E5M2" => Dtype::E5m2,
        "I32" => Dtype::I32,
        "U32" => Dtype::U32,
        "I64" => Dtype::I64,
        "I8" => Dtype::I8,
        "U8" => Dtype::U8,
        "BOOL" => Dtype::Bool,
        other => return Err(error!("has elements of type {other} in `{name}`, which is not supported")),
    };
    let at = |offset: usize| offset.checked_add(8 + length).ok_or(broken);
    Ok((dtype, entry.shape, at(entry.data_offsets[0])?..at(entry.data_offsets[1])?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn npy(header: &str, data: &[u8]) -> Vec<u8> {
        let length = (header.len() as u16).to_le_bytes();
        [NPY, &[1, 0], &length, header.as_bytes(), data].concat()
    }

    fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
    }

    const HEADER: &str = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 1), }\n";

    fn three() -> Vec<u8> {
        [1.0_f32, -2.0, 0.5].iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn both_formats_are_read() {
        let found = read(&npy(HEADER, &three()), None, MAX_GIVEN).unwrap();
        let expected = Array { dtype: Dtype::F32, shape: vec![3, 1], values: vec![1.0, -2.0, 0.5] };
        assert_eq!(found, expected);
        let header = r#"{"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[3,1],"data_offsets":[1,13]},"b":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}}"#;
        let file = safetensors(header, &[&[7], &three()[..]].concat());
        assert_eq!(read(&file, Some("w"), MAX_GIVEN).unwrap(), expected);
        assert_eq!(read(&file, Some("b"), MAX_GIVEN).unwrap().values, [7.0]);
        for (descr, dtype, word) in [("<i4", Dtype::I32, 4), ("<u4", Dtype::U32, 4), ("<i8", Dtype::I64, 8)] {
            let data = (0..3 * word).map(|byte| 251 - byte as u8).collect::<Vec<_>>();
            let found = read(&npy(&HEADER.replace("<f4", descr), &data), None, MAX_GIVEN).unwrap();
            let mut written = vec![0; data.len()];
            dtype.encode(&found.values, &mut written);
            assert_eq!((found.dtype, written), (dtype, data), "whole numbers of the whole range");
        }
        insta::assert_snapshot!(read(&file, None, MAX_GIVEN).unwrap_err(), @r#"has the tensors b, w: choose one with tensor = "…""#);
        insta::assert_snapshot!(read(&file, Some("x"), MAX_GIVEN).unwrap_err(), @"has no tensor `x`, but b, w");
    }

    #[test]
    fn a_broken_file_is_refused_with_the_reason() {
        let with = |from: &str, to: &str| read(&npy(&HEADER.replace(from, to), &three()), None, MAX_GIVEN).unwrap_err();
        insta::assert_snapshot!(with("(3, 1)", "(4,)"), @"is shorter or longer than its header says");
        insta::assert_snapshot!(with("(3, 1)", "(18446744073709551615, 9)"), @"is shorter or longer than its header says");
        insta::assert_snapshot!(with("False", "True"), @"is in Fortran order: save numpy.ascontiguousarray of it");
        insta::assert_snapshot!(with("<f4", "<u8"), @"has elements of type <u8, which is not supported");
        insta::assert_snapshot!(with("descr", "desc"), @"has a header that is not of a .npy file");
        insta::assert_snapshot!(read(&npy(HEADER, &f32::NAN.to_le_bytes().repeat(3)), None, MAX_GIVEN).unwrap_err(), @"has NaN at element 0, but inputs must be finite");
        insta::assert_snapshot!(read(&npy(HEADER, &three()), Some("w"), MAX_GIVEN).unwrap_err(), @r#"is a .npy file, which has one array: leave out tensor = "w""#);
        insta::assert_snapshot!(read(&npy(HEADER, &three()), None, 2).unwrap_err(), @"has more numbers than 268435456, the limit for the files of an op together");
        insta::assert_snapshot!(read(b"hello", None, MAX_GIVEN).unwrap_err(), @"is neither a .npy nor a .safetensors file");
        insta::assert_snapshot!(read(&u64::MAX.to_le_bytes(), None, MAX_GIVEN).unwrap_err(), @"is neither a .npy nor a .safetensors file");
        let beyond = r#"{"w":{"dtype":"F32","shape":[3],"data_offsets":[0,99999999999]}}"#;
        insta::assert_snapshot!(read(&safetensors(beyond, &three()), None, MAX_GIVEN).unwrap_err(), @"is shorter or longer than its header says");
    }
}
