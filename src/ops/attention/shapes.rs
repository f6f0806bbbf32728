//! Hidden shapes: shapes that no workload names, on which a source is checked.

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use crate::domain::op::Dims;

/// Batch entries, heads, queries and keys.
type Shape = (i64, i64, i64, i64);

/// Sizes a little beyond 16 bits.
const PAST_16_BITS: std::ops::Range<i64> = (1 << 16) + 1..(1 << 16) + 4096;

/// Sets the heads of keys and values, with a number of query heads for each. Where that is one, the dimension is left out.
pub fn set_key_heads(dims: &mut Dims, key_heads: &i64, ratio: i64) {
    dims["H"] = key_heads * ratio;
    if ratio == 1 {
        dims.shift_remove("Hkv");
    } else {
        dims.insert("Hkv".to_owned(), *key_heads);
    }
}

/// Heads of queries that share keys and values, in models.
const RATIOS: [i64; 6] = [2, 3, 4, 5, 7, 8];

/// Draws shapes, the most telling first: near the case, where a kernel's last tile ends one row later, shorter than a
/// tile, and with very many keys. Then come shapes far from the case in random order, where a kernel's indices and
/// loops run differently. The last ones keep the case's lengths, for kernels that allow no others. Head dimension, mask, window, cap,
/// sink and the number of heads that share keys vary, too, for kernels that are not rendered for them.
pub fn hidden(dims: &Dims, rng: &mut SmallRng) -> Vec<Dims> {
    let (sq, sk, d) = (dims["Sq"], dims["Sk"], dims["D"]);
    let mut drawn = [
        many_heads(200, rng),
        multiple_of(1, sq, sk, rng),
        multiple_of(*choose(&[2, 4, 8], rng), sq, sk, rng),
        short(rng),
        past_16_bits(d, rng),
        multiple_of(*choose(&[16, 32, 64], rng), sq, sk, rng),
        many_heads(40, rng),
        (5, 1, 1, sk + rng.random_range(1..10)),
        (1, 3, sq - 1, sk - 1),
    ];
    drawn.shuffle(rng);
    let fallback = [
        (2, 3, sq, sk),
        (1, 1, sq, sk),
        multiple_of(8, sq, sk, rng),
        multiple_of(16, sq, sk, rng),
        multiple_of(64, sq, sk, rng),
        (2, 1, (sq / 2) | 1, (sk * 3 / 4) | 1),
        (3, 1, (sq / 3) | 1, (sk / 3) | 1),
        (1, 1, sq - 1, sk - 1),
        (rng.random_range(3..12), rng.random_range(1..8), sq, sk),
    ];
    // The second has the last tile of one row with as little work as there can be, where the first is too much.
    let all = [(3, 2, sq + 1, sk + 1), (1, 1, sq + 1, sk + 1), short(rng), long(rng)]
        .into_iter()
        .chain(drawn)
        .chain(fallback);
    let (of_case, is_shared) = (super::ratio(dims), dims.contains_key("Hkv"));
    let with = |(b, h, other_sq, sk): Shape| {
        let mut other = dims.clone();
        // A case with one query, as in decoding, has neighbours with one query: its kernels are made for that.
        let sq = if sq == 1 { 1 } else { other_sq };
        for (name, size) in [("B", b), ("Sq", sq), ("Sk", sk)] {
            other[name] = size.max(1);
        }
        set_key_heads(&mut other, &h.max(1), of_case);
        other
    };
    let mut all: Vec<Dims> = all.map(with).collect();
    if is_shared {
        // Every other shape has another ratio of heads, and some have none to share.
        for other in all.iter_mut().step_by(2) {
            let (key_heads, ratio) = (other["Hkv"], *choose(&[1, 2, 3, 5, 8], rng));
            set_key_heads(other, &key_heads, ratio);
        }
    }
    let mut other_rows = all[4].clone();
    other_rows["D"] = *choose(&[d / 2 + 1, d + 1, d + 8, d * 2], rng);
    let mut other_mask = all[5].clone();
    other_mask["CAUSAL"] = 1 - dims["CAUSAL"];
    let mut other_ratio = all[6].clone();
    let key_heads = other_ratio["H"] / super::ratio(&other_ratio);
    set_key_heads(&mut other_ratio, &key_heads, *choose(&RATIOS, rng));
    let of_scores = ["WINDOW", "SOFTCAP", "SINK", "LSE"].into_iter().filter(|name| dims.contains_key(*name));
    let other_scores: Vec<Dims> =
        of_scores.map(|name| with_another(name, &with((2, 2, rng.random_range(1..40), 40)), rng)).collect();
    let past_window = dims.get("WINDOW").map(|window| {
        let sk = window + rng.random_range(1..100);
        with((2, 2, rng.random_range(1..sk.min(100)), sk))
    });
    let others = other_scores.into_iter().chain(past_window).chain([other_rows, other_mask, other_ratio]);
    all.splice(3..3, others);
    // So small that every device has time for them: a ratio that is no power of two, and one beyond those of `RATIOS`. With 544 heads,
    // the second took a virtual GPU 13 s, because a kernel on tensor cores computes whole tiles for each.
    let few = |(batch, key_heads, ratio, length): (i64, i64, i64, i64)| {
        let mut other = with((batch, key_heads, length, length));
        set_key_heads(&mut other, &key_heads, ratio);
        other
    };
    all.splice(0..0, [(2, 3, 3, 5), (1, 5, 16, 3)].map(few));
    if dims.contains_key("VARLEN") {
        // More sequences than a warp has lanes, some without a token.
        let tokens = rng.random_range(20..300);
        all.insert(0, with((rng.random_range(33..100), 2, tokens, tokens)));
    }
    for other in &mut all {
        let is_masked = other["CAUSAL"] == 1 || other.contains_key("WINDOW");
        if is_masked {
            // Every query needs a key.
            other["Sk"] = other["Sk"].max(other["Sq"]);
        }
        if other.contains_key("VARLEN") {
            let tokens = other["Sk"].max(other["Sq"]);
            other["Sk"] = tokens;
            other["Sq"] = tokens;
            other.shift_remove("SHORTEST");
            let most = tokens / other["B"];
            if most > 1 && other["B"] > 1 {
                other.insert("SHORTEST".to_owned(), rng.random_range(1..=most));
            }
        }
        if let Some(page) = other.get("PAGE") {
            other["Sk"] = other["Sk"].div_euclid(*page).max(1) * page;
            other["Sq"] = other["Sq"].min(other["Sk"]);
            other["PAGES"] = super::places(other) + rng.random_range(0..3);
        }
        if other.contains_key("LENGTHS") {
            let least = least_length(if is_masked { other["Sq"] } else { 1 }, other["Sk"], rng);
            other.shift_remove("SHORTEST");
            if least < other["Sk"] {
                other.insert("SHORTEST".to_owned(), least);
            }
        }
    }
    all
}

/// Draws the length of the shortest batch entry: as short as can be, as long as the longest one, or any.
fn least_length(least: i64, most: i64, rng: &mut SmallRng) -> i64 {
    match rng.random_range(0..4) {
        0 => least,
        1 => most,
        _ => rng.random_range(least..=most),
    }
}

/// Caps of scores, in models and beyond. 0: none.
const CAPS: [i64; 5] = [0, 1, 5, 30, 50];

/// Draws another window, cap or sink for a shape that has it, for kernels that are not rendered for one. The others stay, because
/// the kernel may be rendered for those. A window has one key, all of them, or any number between.
fn with_another(name: &str, dims: &Dims, rng: &mut SmallRng) -> Dims {
    let keys = dims["Sk"].max(dims["Sq"]);
    let value = match (name, rng.random_range(0..6)) {
        ("WINDOW", 0) => 0,
        ("WINDOW", 1) => 1,
        ("WINDOW", 2) => keys,
        ("WINDOW", _) => rng.random_range(1..=keys),
        ("SOFTCAP", _) => *choose(&CAPS, rng),
        _ => 0,
    };
    let mut other = dims.clone();
    if value == 0 {
        other.shift_remove(name);
    } else {
        other[name] = value;
    }
    other
}

/// Few queries and many keys: more than the largest FP16 integer, or many more.
fn long(rng: &mut SmallRng) -> Shape {
    let sk = if rng.random() { rng.random_range(2049..6000) } else { rng.random_range(PAST_16_BITS) };
    let most = if sk < 6000 { 130 } else { 4 };
    (1, rng.random_range(1..3), rng.random_range(1..most), sk)
}

/// Fewer keys than a tile has.
fn short(rng: &mut SmallRng) -> Shape {
    let sk = rng.random_range(1..64);
    (rng.random_range(1..4), rng.random_range(1..10), rng.random_range(1..=sk), sk)
}

/// Many heads of up to `longest` queries, and an odd number of batch entries.
fn many_heads(longest: i64, rng: &mut SmallRng) -> Shape {
    let (b, h) = (rng.random_range(2..12) * 2 + 1, rng.random_range(5..24));
    let sq = rng.random_range(3..longest);
    (b, h, sq, sq + rng.random_range(0..10))
}

/// Lengths that are odd multiples of `factor`, below twice those of the case or below 400.
fn multiple_of(factor: i64, sq: i64, sk: i64, rng: &mut SmallRng) -> Shape {
    let mut length = |near: i64| {
        let most = (near.clamp(200, 2000) * 2 / factor / 2).max(2);
        (rng.random_range(0..most) * 2 + 1) * factor
    };
    let (a, b) = (length(sq), length(sk));
    (rng.random_range(1..4), rng.random_range(1..5), a.min(b), a.max(b))
}

/// More rows in a tensor, or more elements in a head, than 16 bits can index.
fn past_16_bits(d: i64, rng: &mut SmallRng) -> Shape {
    let wanted = rng.random_range(PAST_16_BITS);
    if rng.random() {
        let length = rng.random_range(20..80);
        let heads = wanted / length + 1;
        let h = rng.random_range(16..48);
        return (heads / h + 1, h, length, length);
    }
    let length = (wanted / d + 1).min(4000);
    (1, rng.random_range(1..3), rng.random_range(1..70), length)
}

fn choose<'a, T>(choices: &'a [T], rng: &mut SmallRng) -> &'a T {
    &choices[rng.random_range(0..choices.len())]
}
