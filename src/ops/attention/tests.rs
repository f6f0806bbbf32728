//! The oracle of attention against a second implementation, and its shapes.

mod second;

use super::*;
use crate::domain::op::{runs, spread};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use second::online;

fn dims(b: i64, h: i64, sq: i64, sk: i64, d: i64, causal: i64) -> Dims {
    [("B", b), ("H", h), ("Sq", sq), ("Sk", sk), ("D", d), ("CAUSAL", causal)]
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect()
}

/// The same, with so many heads of keys and values.
fn shared(dims: Dims, key_heads: i64) -> Dims {
    dims.into_iter().chain([("Hkv".to_owned(), key_heads)]).collect()
}

/// The same, with a window, a cap and a sink; 0 is none.
fn scored(dims: Dims, window: i64, cap: i64, sink: i64) -> Dims {
    let scores = [("WINDOW", window), ("SOFTCAP", cap), ("SINK", sink)].into_iter().filter(|(_, value)| *value > 0);
    dims.into_iter().chain(scores.map(|(name, value)| (name.to_owned(), value))).collect()
}

/// The same, with lengths and pages; 0 is none.
fn ragged(dims: Dims, least: i64, page: i64) -> Dims {
    let of_cache = [
        ("LENGTHS", 1),
        ("SHORTEST", if least < dims["Sk"] { least } else { 0 }),
        ("PAGE", page),
        ("PAGES", if page > 0 { dims["B"] * dims["Sk"] / page + 1 } else { 0 }),
    ]
    .into_iter()
    .filter(|(_, value)| *value > 0);
    dims.into_iter().chain(of_cache.map(|(name, value)| (name.to_owned(), value))).collect()
}

/// The same, with keys and values in one tensor.
fn joined(dims: Dims) -> Dims {
    dims.into_iter().chain([("KV".to_owned(), 1)]).collect()
}

/// The same, with the logarithms of the sums.
fn with_lse(dims: Dims) -> Dims {
    dims.into_iter().chain([("LSE".to_owned(), 1)]).collect()
}

/// The same, with packed sequences, the shortest of which has so many tokens; 0 is the default.
fn packed(dims: Dims, least: i64) -> Dims {
    let of_packed = [("VARLEN", 1), ("SHORTEST", least)].into_iter().filter(|(_, value)| *value > 0);
    dims.into_iter().chain(of_packed.map(|(name, value)| (name.to_owned(), value))).collect()
}

/// Returns all rows of the outputs.
fn rows_of(dims: &Dims) -> std::ops::Range<usize> {
    let rows =
        |output: &TensorSpec| if Attention.is_logarithm(&output.name) { output.elements() } else { output.rows() };
    0..Attention.outputs(dims, Dtype::F32).iter().map(rows).sum()
}

/// Draws inputs.
pub(super) fn drawn(dims: &Dims, rng: &mut SmallRng) -> Vec<Vec<f32>> {
    let draw = |tensor: TensorSpec| -> Vec<f32> {
        let mut numbers: Vec<i64> = match tensor.values {
            Values::Spread(from, to) => spread(from, to, tensor.elements()).collect(),
            Values::Borders(shortest, total) => runs(shortest, total, tensor.elements() - 1),
            _ => return (0..tensor.elements()).map(|_| rng.random_range(-3.0..3.0)).collect(),
        };
        numbers.shuffle(rng);
        if matches!(tensor.values, Values::Borders(..)) {
            let begin = |run: usize| numbers[..run].iter().sum();
            numbers = (0..=numbers.len()).map(begin).collect();
        }
        let mut values = vec![0.0; numbers.len()];
        values.iter_mut().zip(numbers).for_each(|(value, number)| {
            tensor.dtype.keep(number, std::slice::from_mut(value));
        });
        values
    };
    Attention.inputs(dims, Dtype::F32).into_iter().map(draw).collect()
}

#[test]
fn the_oracle_agrees_with_a_second_implementation() {
    let mut rng = SmallRng::seed_from_u64(7);
    for case in [
        dims(1, 1, 4, 4, 4, 1),
        dims(2, 3, 33, 33, 20, 1),
        dims(1, 2, 5, 17, 9, 1),
        dims(2, 1, 1, 65, 64, 0),
        shared(dims(2, 6, 9, 17, 8, 1), 2),
        shared(dims(2, 4, 3, 5, 8, 0), 1),
        scored(dims(2, 2, 9, 17, 8, 1), 4, 0, 0),
        scored(dims(1, 2, 20, 33, 8, 0), 5, 0, 1),
        scored(dims(2, 3, 7, 7, 8, 1), 1, 2, 1),
        scored(shared(dims(2, 6, 9, 17, 8, 0), 2), 0, 3, 1),
        ragged(dims(3, 2, 4, 20, 8, 1), 4, 0),
        ragged(scored(shared(dims(3, 4, 1, 24, 8, 1), 2), 5, 3, 1), 1, 8),
        ragged(shared(dims(2, 6, 3, 12, 8, 0), 2), 12, 4),
        joined(ragged(scored(shared(dims(3, 4, 1, 24, 8, 1), 2), 5, 3, 1), 1, 8)),
        with_lse(scored(shared(dims(2, 6, 9, 17, 8, 1), 2), 4, 3, 1)),
        with_lse(ragged(dims(3, 2, 4, 20, 8, 0), 4, 0)),
        packed(dims(3, 2, 20, 20, 8, 1), 2),
        packed(dims(7, 2, 5, 5, 8, 0), 0),
        packed(with_lse(scored(shared(dims(4, 6, 30, 30, 8, 1), 2), 4, 3, 1)), 1),
    ] {
        let mut inputs = drawn(&case, &mut rng);
        if case.contains_key("LENGTHS") {
            // One batch entry has fewer keys than queries, and one has none.
            let lengths =
                inputs.len() - case.keys().filter(|name| ["PAGE", "SINK"].contains(&name.as_str())).count() - 1;
            Dtype::I32.keep(1, &mut inputs[lengths][..1]);
            Dtype::I32.keep(0, &mut inputs[lengths][1..2]);
        }
        let (rows, expected) = (rows_of(&case), online(&case, &inputs));
        let oracle = Attention.oracle(&case, &inputs, &rows.collect::<Vec<_>>()).unwrap();
        assert_eq!(oracle.len(), expected.len(), "{case:?}");
        for (a, b) in oracle.into_iter().zip(expected) {
            assert!(a == b || (a - b).abs() < 1e-12, "{a} and {b} differ in {case:?}");
        }
    }
}

#[test]
fn chosen_rows_are_the_rows_of_the_whole() {
    let case = dims(2, 2, 6, 6, 8, 1);
    let inputs: Vec<Vec<f32>> = (0..3).map(|t| (0..192).map(|i| ((i * 7 + t) % 11) as f32).collect()).collect();
    let whole = Attention.oracle(&case, &inputs, &(0..24).collect::<Vec<_>>()).unwrap();
    let some = Attention.oracle(&case, &inputs, &[23, 0, 7]).unwrap();
    assert_eq!(some, [&whole[184..192], &whole[0..8], &whole[56..64]].concat());
}

#[test]
fn scaled_cases_are_smaller_and_leave_the_last_tile_as_full() {
    let scaled = Attention.scaled(&dims(4, 1, 4097, 8192, 64, 0));
    let lengths: Vec<_> = scaled.iter().map(|d| (d["B"], d["H"], d["Sq"], d["Sk"])).collect();
    assert_eq!(lengths[0], (2, 1, 257, 256));
    assert_eq!(lengths[4], (2, 1, 4097, 4096));
    // A single query stays a single query, and a small case has no smaller one.
    assert_eq!(Attention.scaled(&dims(1, 32, 1, 1000, 128, 0))[0]["Sq"], 1);
    assert!(Attention.scaled(&dims(2, 2, 100, 200, 64, 1)).is_empty());
}

#[test]
fn hidden_shapes_are_valid_and_no_more_work_than_allowed() {
    let little = CheckLimits { flop: 2e7, bytes: 4e6 };
    let cases = [
        dims(8, 8, 128, 128, 64, 1),
        dims(1, 1, 4, 4, 4, 1),
        dims(2, 2, 100, 50, 64, 0),
        dims(1, 32, 1, 8192, 128, 0),
        dims(1, 1, 1, 1, 8, 1),
        shared(dims(2, 8, 128, 128, 64, 1), 2),
        shared(dims(16, 32, 1, 4096, 128, 0), 8),
        scored(dims(2, 8, 128, 128, 64, 1), 32, 50, 1),
        scored(dims(2, 8, 100, 128, 64, 0), 200, 0, 0),
        ragged(shared(dims(8, 8, 1, 256, 64, 0), 2), 20, 16),
        ragged(dims(4, 2, 5, 100, 64, 1), 100, 0),
        packed(shared(dims(4, 8, 200, 200, 64, 1), 2), 5),
    ];
    for case in cases {
        assert_ne!(Attention.hidden(&case, little, 7), Attention.hidden(&case, little, 8), "other shapes each time");
        for other in (0..50).flat_map(|seed| Attention.hidden(&case, little, seed)) {
            Attention.check(&other).unwrap();
            assert!(other != case, "{other:?}");
            assert_ne!(other.get("Hkv"), other.get("H"), "a default is left out: {other:?}");
            assert!(Attention.flop(&other) <= little.flop.max(2.0 * Attention.flop(&case)), "{other:?}");
            assert!(case["Sq"] > 1 || other["Sq"] == 1, "{other:?}");
        }
    }
}

/// Some hidden shapes have windows, caps and sinks of their own. Those of the case are kept for shapes longer than its window.
#[test]
fn hidden_shapes_have_windows_at_both_ends() {
    let case = scored(dims(1, 2, 1024, 1024, 64, 1), 512, 50, 1);
    let large = CheckLimits { flop: 4e9, bytes: 1e8 };
    let all: Vec<Dims> = (0..9).flat_map(|seed| Attention.hidden(&case, large, seed)).collect();
    let some = |what: &str, is: &dyn Fn(&Dims, i64) -> bool| {
        assert!(all.iter().any(|dims| is(dims, dims.get("WINDOW").copied().unwrap_or(0))), "{what}");
    };
    some("none", &|_, window| window == 0);
    some("one key", &|_, window| window == 1);
    some("all keys", &|dims, window| window == dims["Sk"]);
    some("a part of the keys", &|dims, window| window > 1 && window < dims["Sk"] / 2);
    some("no cap", &|dims, _| !dims.contains_key("SOFTCAP"));
    some("no sink", &|dims, _| !dims.contains_key("SINK"));
    some("a little more than the case's window", &|dims, window| window == 512 && (513..612).contains(&dims["Sk"]));
    some("another cap", &|dims, _| dims.get("SOFTCAP").is_some_and(|cap| *cap != 50));
}

/// The keys of a query and the queries of a key are one relation.
#[test]
fn a_query_sees_the_keys_that_it_is_a_query_of() {
    for case in [
        dims(1, 1, 7, 12, 8, 1),
        dims(1, 1, 9, 4, 8, 0),
        scored(dims(1, 1, 7, 12, 8, 1), 3, 0, 0),
        scored(dims(1, 1, 7, 12, 8, 0), 3, 0, 0),
        scored(dims(1, 1, 5, 5, 8, 0), 9, 0, 0),
    ] {
        let shape = Shape::of(&case);
        for j in 0..shape.sk {
            let of_key: Vec<usize> = (0..shape.sq).filter(|i| shape.visible(*i).contains(&j)).collect();
            assert_eq!(of_key.is_empty(), !shape.seen().contains(&j), "{case:?}, key {j}");
            if !of_key.is_empty() {
                assert_eq!(of_key, shape.queries_of(j).collect::<Vec<_>>(), "{case:?}, key {j}");
            }
        }
    }
}

/// Three batch entries of other ratios were too much work for a virtual GPU, so a kernel that lost the key of a last tile of one row
/// was called right.
#[test]
fn one_hidden_shape_has_one_row_more_and_little_work() {
    let limits = CheckLimits { flop: 1e7, bytes: 2e6 };
    for case in [shared(dims(1, 8, 256, 256, 64, 1), 2), shared(dims(2, 32, 256, 256, 128, 1), 8)] {
        for seed in 0..20 {
            let all = Attention.hidden(&case, limits, seed);
            assert!(all[..8].iter().any(|other| other["Sq"] == 257 && other["Sk"] == 257), "{all:?}");
        }
    }
}

/// The shapes of a few seeds include odd ones, ones of every divisibility that kernels depend on, many heads, and
/// more rows than 16 bits can index.
#[test]
fn hidden_shapes_vary_parity_divisibility_heads_and_size() {
    let large = CheckLimits { flop: 4e9, bytes: 1e8 };
    let case = dims(1, 1, 64, 64, 64, 1);
    let all: Vec<Dims> = (0..5).flat_map(|seed| Attention.hidden(&case, large, seed)).collect();
    let some = |what: &str, is: &dyn Fn(&Dims) -> bool| assert!(all.iter().any(is), "{what}");
    some("an odd length", &|d| d["Sq"] % 2 == 1 && d["Sk"] % 2 == 1);
    for factor in [2, 8, 16, 64] {
        some("a multiple and no larger one", &|d| d["Sk"] % factor == 0 && d["Sk"] / factor % 2 == 1);
    }
    some("more keys than queries", &|d| d["Sk"] > d["Sq"] && d["Sq"] > 1);
    some("a single query", &|d| d["Sq"] == 1);
    some("an odd batch", &|d| d["B"] % 2 == 1 && d["B"] > 4);
    some("more keys than FP16 counts", &|d| d["Sk"] > 2048);
    some("a short head", &|d| d["Sk"] < 32);
    some("another head dimension", &|d| d["D"] != 64);
    some("no mask", &|d| d["CAUSAL"] == 0);
    some("many heads", &|d| d["B"] * d["H"] > 40);
    some("more rows than 16 bits count", &|d| d["B"] * d["H"] * d["Sk"] > 1 << 16);
    some("more elements in a head than 16 bits count", &|d| d["Sk"] * d["D"] > 1 << 16);
}

/// FlashAttention's convention: 4·B·H·S²·D, half of it (plus the diagonal) when causal.
/// Decoding with a window was taken for a cheat: it took less time than reading all keys.
#[test]
fn keys_that_no_query_sees_need_not_be_read() {
    let bytes = |dims: &Dims| Attention.bytes(dims, Dtype::Bf16);
    let decoding = shared(dims(8, 32, 1, 16384, 128, 1), 8);
    let in_window = scored(decoding.clone(), 4096, 0, 0);
    let of_keys = 2.0 * 2.0 * f64::from(8 * 8 * (16384 - 4096) * 128);
    assert_eq!(bytes(&decoding) - bytes(&in_window), of_keys);
    let (prefill, with_window) = (dims(1, 2, 512, 512, 64, 1), scored(dims(1, 2, 512, 512, 64, 1), 64, 0, 0));
    assert_eq!(bytes(&prefill), bytes(&with_window), "some query sees each key");
}

#[test]
fn the_work_is_counted_by_visible_pairs() {
    assert_eq!(Attention.flop(&dims(8, 8, 128, 128, 64, 0)), 4.0 * 64.0 * 128.0 * 128.0 * 64.0);
    assert_eq!(Attention.flop(&dims(8, 8, 128, 128, 64, 1)), 4.0 * 64.0 * (128.0 * 129.0 / 2.0) * 64.0);
}

#[test]
fn a_cache_that_cannot_be_is_refused_in_a_sentence() {
    let case = dims(2, 2, 1, 96, 64, 0);
    let refused = |of_cache: &[(&str, i64)]| {
        let of_cache = of_cache.iter().map(|(name, value)| ((*name).to_owned(), *value));
        Attention.check(&case.clone().into_iter().chain(of_cache).collect()).unwrap_err()
    };
    insta::assert_snapshot!(refused(&[("SHORTEST", 5)]), @"SHORTEST = 5 needs LENGTHS = 1 or VARLEN = 1");
    insta::assert_snapshot!(refused(&[("LENGTHS", 1), ("SHORTEST", 97)]), @"SHORTEST = 97 must not be more than Sk = 96");
    insta::assert_snapshot!(refused(&[("PAGE", 16)]), @"PAGE needs LENGTHS = 1: a cache in pages has the lengths of its batch entries");
    insta::assert_snapshot!(refused(&[("LENGTHS", 1), ("PAGE", 20), ("PAGES", 9)]), @"Sk = 96 must be a multiple of PAGE = 20");
    insta::assert_snapshot!(refused(&[("LENGTHS", 1), ("PAGE", 16), ("PAGES", 11)]), @"PAGES = 11 must be B * Sk / PAGE = 12 at least, so that each page has one place");
    insta::assert_snapshot!(refused(&[("VARLEN", 1)]), @"VARLEN needs Sq = Sk = 96, the tokens of all sequences");
    insta::assert_snapshot!(refused(&[("VARLEN", 1), ("Sq", 96), ("LENGTHS", 1)]), @"VARLEN has the lengths of its sequences: leave out LENGTHS");
    insta::assert_snapshot!(refused(&[("VARLEN", 1), ("Sq", 96), ("SHORTEST", 49)]), @"2 sequences of SHORTEST = 49 tokens have more than Sk = 96");
    insta::assert_snapshot!(refused(&[("LENGTHS", 1), ("PAGES", 11)]), @"PAGES = 11 needs PAGE, the keys of a page");
}
