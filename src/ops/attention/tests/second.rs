//! Attention by its definition, beside the oracle.

use super::super::Attention;
use crate::domain::op::{Dims, Dtype, Op};

/// A second implementation. It follows the definition, with the online softmax of Milakov and Gimelshein instead of
/// two passes. It shares neither code nor algorithm with the oracle.
pub fn online(dims: &Dims, inputs: &[Vec<f32>]) -> Vec<f64> {
    let at = |name: &str| dims[name] as usize;
    let (heads, sq, sk, d) = (at("B") * at("H"), at("Sq"), at("Sk"), at("D"));
    let key_heads = dims.get("Hkv").map_or(at("H"), |heads| *heads as usize);
    let optional = |name: &str| dims.get(name).map(|value| *value as f64);
    let names: Vec<String> = Attention.tensors(dims, Dtype::F32).into_iter().map(|tensor| tensor.name).collect();
    let input = |name: &str| names.iter().position(|it| it == name).map(|place| &inputs[place]);
    let number = |name: &str, place: usize| input(name).map(|it| Dtype::I32.kept(&it[place..=place]) as usize);
    // With KV, a row has a key and then its value.
    let (row_len, values, of_value) = if dims.contains_key("KV") { (2 * d, 1, d) } else { (d, 2, 0) };
    let is_packed = dims.contains_key("VARLEN");
    let count = if is_packed { sq * at("H") } else { heads * sq };
    let (mut out, mut logarithms) = (vec![0.0; count * d], vec![0.0; count]);
    for head in 0..heads {
        let (entry, key_head) = (head / at("H"), head % at("H") * key_heads / at("H"));
        let begin = number("cu_seqlens", entry).unwrap_or(0);
        let of_packed = number("cu_seqlens", entry + is_packed as usize).map(|end| end - begin);
        let length = of_packed.or(number("lengths", entry)).unwrap_or(sk);
        let sq = of_packed.unwrap_or(sq);
        let row_of = |j: usize| match dims.get("PAGE").map(|page| *page as usize) {
            None if is_packed => (begin + j) * key_heads + key_head,
            None => (entry * key_heads + key_head) * sk + j,
            Some(page) => {
                let number = number("page_table", entry * (sk / page) + j / page).unwrap();
                (number * page + j % page) * key_heads + key_head
            }
        };
        for i in 0..sq {
            let place = if is_packed { (begin + i) * at("H") + head % at("H") } else { head * sq + i };
            let (mut highest, mut total) = (f64::NEG_INFINITY, 0.0);
            if optional("SINK").is_some() {
                (highest, total) = (f64::from(input("sink").unwrap()[head % at("H")]), 1.0);
            }
            let row = &mut out[place * d..(place + 1) * d];
            for j in 0..length {
                let ahead = j as f64 - (i + length) as f64 + sq as f64;
                if at("CAUSAL") == 1 && ahead > 0.0 || optional("WINDOW").is_some_and(|window| ahead.abs() >= window) {
                    continue;
                }
                let mut score = 0.0;
                for c in 0..d {
                    score += f64::from(inputs[0][place * d + c]) * f64::from(inputs[1][row_of(j) * row_len + c]);
                }
                score /= (d as f64).sqrt();
                if let Some(cap) = optional("SOFTCAP") {
                    score = cap * (score / cap).tanh();
                }
                let new_highest = f64::max(highest, score);
                let (keep, weight) = ((highest - new_highest).exp(), (score - new_highest).exp());
                total = total * keep + weight;
                for c in 0..d {
                    let value = inputs[values][row_of(j) * row_len + of_value + c];
                    row[c] = row[c] * keep + weight * f64::from(value);
                }
                highest = new_highest;
            }
            if total > 0.0 {
                row.iter_mut().for_each(|value| *value /= total);
            }
            logarithms[place] = highest + total.ln();
        }
    }
    if optional("LSE").is_some() {
        out.extend(logarithms);
    }
    out
}
