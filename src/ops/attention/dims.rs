//! The dimensions of attention, and which of them go together.

use super::shape::{places, shortest};
use crate::domain::op::{DimDefault, DimSpec, Dims, OptionalDim};
use crate::error::{Error, error};

/// Those that every case gives.
pub const DIMS: [DimSpec; 6] = [
    DimSpec { name: "B", about: "the batch size", range: (1, 1 << 16) },
    DimSpec { name: "H", about: "the number of heads (of queries)", range: (1, 1 << 16) },
    DimSpec { name: "Sq", about: "the number of queries", range: (1, 1 << 20) },
    DimSpec { name: "Sk", about: "the number of keys", range: (1, 1 << 20) },
    DimSpec { name: "D", about: "the head dimension", range: (1, 8192) },
    DimSpec {
        name: "CAUSAL",
        about: "1 for causal attention, where no query sees a later key, and 0 for full",
        range: (0, 1),
    },
];

/// Those that a case may leave out.
pub const OPTIONAL_DIMS: [OptionalDim; 11] = [
    OptionalDim {
        dim: DimSpec { name: "Hkv", about: "the number of heads of keys and values", range: (1, 1 << 16) },
        default: DimDefault::Same("H"),
    },
    OptionalDim {
        dim: DimSpec {
            name: "WINDOW",
            about: "the number of keys that a query sees, with its own, on each side that it sees (0: all)",
            range: (0, 1 << 20),
        },
        default: DimDefault::Fixed(0),
    },
    OptionalDim {
        dim: DimSpec { name: "SOFTCAP", about: "the limit that scores approach (0: none)", range: (0, 1 << 16) },
        default: DimDefault::Fixed(0),
    },
    OptionalDim {
        dim: DimSpec { name: "SINK", about: "1 for a sink, a score of each head without a value", range: (0, 1) },
        default: DimDefault::Fixed(0),
    },
    OptionalDim {
        dim: DimSpec {
            name: "LENGTHS",
            about: "1 if each batch entry has a number of keys of its own, up to Sk (0: each has Sk)",
            range: (0, 1),
        },
        default: DimDefault::Fixed(0),
    },
    OptionalDim {
        dim: DimSpec {
            name: "SHORTEST",
            about: "the fewest keys of a batch entry, with LENGTHS or VARLEN",
            range: (1, 1 << 20),
        },
        default: DimDefault::Same("Sk"),
    },
    OptionalDim {
        dim: DimSpec { name: "PAGE", about: "the keys of a page (0: keys are not in pages)", range: (0, 1 << 20) },
        default: DimDefault::Fixed(0),
    },
    OptionalDim {
        dim: DimSpec { name: "PAGES", about: "the pages of the cache, used or not (with PAGE)", range: (0, 1 << 24) },
        default: DimDefault::Fixed(0),
    },
    OptionalDim {
        dim: DimSpec {
            name: "LSE",
            about: "1 for a second output, the logarithm of each row's sum of weights",
            range: (0, 1),
        },
        default: DimDefault::Off,
    },
    OptionalDim {
        dim: DimSpec {
            name: "VARLEN",
            about: "1 if batch entries are sequences of their own lengths, packed into Sq = Sk tokens",
            range: (0, 1),
        },
        default: DimDefault::Off,
    },
    OptionalDim {
        dim: DimSpec {
            name: "KV",
            about: "1 if pages have each key and its value in one row, of one tensor (0: k and v)",
            range: (0, 1),
        },
        default: DimDefault::Off,
    },
];

/// Refuses combinations that are invalid together, in one sentence.
pub fn check(dims: &Dims) -> Result<(), Error> {
    if dims["CAUSAL"] == 1 && dims["Sq"] > dims["Sk"] {
        return Err(Error::new("causal attention needs Sq <= Sk, or the first queries have no keys"));
    }
    if let Some(key_heads) = dims.get("Hkv").filter(|key_heads| dims["H"] % **key_heads != 0) {
        return Err(error!("H = {} must be a multiple of Hkv = {key_heads}", dims["H"]));
    }
    if dims.contains_key("WINDOW") && dims["Sq"] > dims["Sk"] {
        return Err(Error::new("a window needs Sq <= Sk, or the first queries have no keys"));
    }
    let shortest = shortest(dims);
    if dims.contains_key("VARLEN") {
        return check_packed(dims, shortest);
    }
    if !dims.contains_key("LENGTHS") && dims.contains_key("SHORTEST") {
        return Err(error!("SHORTEST = {shortest} needs LENGTHS = 1 or VARLEN = 1"));
    }
    if shortest > dims["Sk"] {
        return Err(error!("SHORTEST = {shortest} must not be more than Sk = {}", dims["Sk"]));
    }
    if (dims["CAUSAL"] == 1 || dims.contains_key("WINDOW")) && dims["Sq"] > shortest {
        return Err(error!("SHORTEST = {shortest} must be Sq = {} at least, or queries have no keys", dims["Sq"]));
    }
    if dims.contains_key("KV") && !dims.contains_key("PAGE") {
        return Err(Error::new("KV = 1 needs PAGE: only pages have keys and values in one tensor"));
    }
    if let Some(page) = dims.get("PAGE") {
        if !dims.contains_key("LENGTHS") {
            return Err(Error::new("PAGE needs LENGTHS = 1: a cache in pages has the lengths of its batch entries"));
        }
        if dims["Sk"] % page != 0 {
            return Err(error!("Sk = {} must be a multiple of PAGE = {page}", dims["Sk"]));
        }
    }
    let (pages, least) = (dims.get("PAGES").copied().unwrap_or(0), places(dims));
    if pages > 0 && !dims.contains_key("PAGE") {
        return Err(error!("PAGES = {pages} needs PAGE, the keys of a page"));
    }
    if pages < least {
        return Err(error!(
            "PAGES = {pages} must be B * Sk / PAGE = {least} at least, so that each page has one place"
        ));
    }
    let key_heads = if dims.contains_key("Hkv") { "Hkv" } else { "H" };
    let elements = |names: [&str; 4]| names.into_iter().map(|name| dims[name] as f64).product::<f64>();
    let keys = match dims.contains_key("PAGE") {
        true => elements(["PAGES", "PAGE", key_heads, "D"]) * if dims.contains_key("KV") { 2.0 } else { 1.0 },
        false => elements(["B", key_heads, "Sk", "D"]),
    };
    if elements(["B", "H", "Sq", "D"]).max(keys) > f64::from(i32::MAX) {
        return Err(Error::new("a tensor has more than 2^31 elements; reduce B, H, S or D"));
    }
    Ok(())
}

/// Refuses what packed sequences cannot be.
fn check_packed(dims: &Dims, shortest: i64) -> Result<(), Error> {
    let [tokens, sequences] = ["Sk", "B"].map(|name| dims[name]);
    if dims["Sq"] != tokens {
        return Err(error!("VARLEN needs Sq = Sk = {tokens}, the tokens of all sequences"));
    }
    if let Some(other) = ["LENGTHS", "PAGE", "PAGES", "KV"].into_iter().find(|name| dims.contains_key(*name)) {
        return Err(error!("VARLEN has the lengths of its sequences: leave out {other}"));
    }
    if shortest.saturating_mul(sequences) > tokens {
        return Err(error!("{sequences} sequences of SHORTEST = {shortest} tokens have more than Sk = {tokens}"));
    }
    if ["Sq", "H", "D"].into_iter().map(|name| dims[name] as f64).product::<f64>() > f64::from(i32::MAX) {
        return Err(Error::new("a tensor has more than 2^31 elements; reduce H, S or D"));
    }
    Ok(())
}
