//! Attention as an expression of PyTorch, for exported modules.

/// Torch's own causal mask lets the first query see the first key only. optloop's lets the last query see every key, which
/// is the same for as many queries as keys. Torch has shared heads since 2.5.
const PLAIN: &str = "F.scaled_dot_product_attention(q, k, v, **({'is_causal': True} if CAUSAL == 1 and Sq == Sk \
    else {'attn_mask': torch.ones(Sq, Sk, dtype=torch.bool, device=q.device).tril(Sk - Sq)} if CAUSAL == 1 \
    else {}), **({} if q.shape[1] == k.shape[1] else {'enable_gqa': True}))";

/// Returns the expression for cases that give these of the optional dimensions.
pub fn expression(optional: &[&str]) -> String {
    let has = |name: &str| optional.contains(&name);
    let of_whole = |expression: String| if has("VARLEN") { of_each_sequence(&expression) } else { expression };
    let output = of_whole(output(&has));
    if has("LSE") { format!("({output}, {})", of_whole(log_sum(&has))) } else { output }
}

/// Returns an expression for packed sequences, given that of a batch of one sequence.
fn of_each_sequence(expression: &str) -> String {
    let of_one = |name: &str| format!("{name}[begin:end].transpose(0, 1)[None]");
    format!(
        "torch.cat([(lambda q, k, v, B, Sq, Sk: {expression})({}, {}, {}, 1, end - begin, end - begin)[0].transpose(0, 1) \
         for begin, end in zip(cu_seqlens.tolist()[:-1], cu_seqlens.tolist()[1:])])",
        of_one("q"),
        of_one("k"),
        of_one("v")
    )
}

/// Returns the expression of the first output.
fn output(has: &dyn Fn(&str) -> bool) -> String {
    if has("LENGTHS") {
        return of_cache(has);
    }
    if !has("WINDOW") && !has("SOFTCAP") && !has("SINK") {
        return PLAIN.to_owned();
    }
    let mask = mask(has("WINDOW"));
    if !has("SOFTCAP") && !has("SINK") {
        return format!(
            "F.scaled_dot_product_attention(q, k, v, attn_mask={mask}, \
             **({{}} if q.shape[1] == k.shape[1] else {{'enable_gqa': True}}))"
        );
    }
    of_scores(("k", "v"), &mask, has)
}

/// Returns the expression of the second output: the logarithms of the sums of weights.
fn log_sum(has: &dyn Fn(&str) -> bool) -> String {
    let (k, mask) =
        if has("LENGTHS") { (of_keys("k", has), mask_of_cache(has)) } else { ("k".to_owned(), mask(has("WINDOW"))) };
    format!("{}.logsumexp(-1)", scores(&k, &mask, has))
}

/// Returns the expression for batch entries with lengths of their own. An entry without keys gives 0.
fn of_cache(has: &dyn Fn(&str) -> bool) -> String {
    let (k, v, mask) = (of_keys("k", has), of_keys("v", has), mask_of_cache(has));
    let output = if has("SOFTCAP") || has("SINK") {
        of_scores((&k, &v), &mask, has)
    } else {
        format!("F.scaled_dot_product_attention(q, {k}, {v}, attn_mask={mask}, enable_gqa=True)")
    };
    format!("torch.where((lengths > 0)[:, None, None, None], {output}, 0)")
}

/// The positions of keys, and which of them a batch entry has.
const POSITIONS: &str = "torch.arange(Sk, device=q.device)";
const IS_KEY: &str = "(torch.arange(Sk, device=q.device) < lengths[:, None])";

/// Returns keys or values of batch entries with lengths of their own. What is behind the lengths may be NaN, and the table for pages
/// may have any numbers there.
fn of_keys(name: &str, has: &dyn Fn(&str) -> bool) -> String {
    let of_cache = match (has("KV"), name) {
        (true, "k") => "(kv[..., :D] if KV else k)".to_owned(),
        (true, _) => "(kv[..., D:] if KV else v)".to_owned(),
        _ => name.to_owned(),
    };
    let pages = format!(
        "(lambda it: it[page_table.clamp(0, it.shape[0] - 1).long()])({of_cache}).reshape(B, Sk, -1, D).transpose(1, 2)"
    );
    let rows = if has("PAGE") { pages } else { name.to_owned() };
    format!("{rows}.masked_fill(~{IS_KEY}[:, None, :, None], 0)")
}

/// Returns the mask of visible keys where batch entries have lengths of their own.
fn mask_of_cache(has: &dyn Fn(&str) -> bool) -> String {
    // How far a key lies ahead of a query.
    let ahead = format!(
        "({POSITIONS}[None, None] - torch.arange(Sq, device=q.device)[None, :, None] - lengths[:, None, None] + Sq)"
    );
    let window = format!(" & ({ahead}.abs() < (WINDOW if WINDOW > 0 else Sq + Sk + 1))");
    let window = if has("WINDOW") { window } else { String::new() };
    format!("({IS_KEY}[:, None] & ({ahead} <= (0 if CAUSAL == 1 else Sq + Sk)){window})[:, None]")
}

/// Returns the heads of keys or values as those of queries.
fn repeated(rows: &str) -> String {
    format!("(lambda it: it.repeat_interleave(H // it.shape[1], 1).float())({rows})")
}

/// Returns the scores of visible keys, the last one of which is the sink.
fn scores(k: &str, mask: &str, has: &dyn Fn(&str) -> bool) -> String {
    let scores = format!("(q.float() @ {}.transpose(-2, -1)) / D ** 0.5", repeated(k));
    let capped = if has("SOFTCAP") {
        format!("({scores} if SOFTCAP == 0 else SOFTCAP * torch.tanh({scores} / SOFTCAP))")
    } else {
        format!("({scores})")
    };
    let masked = format!("{capped}.masked_fill(~{mask}, -torch.inf)");
    if has("SINK") {
        format!("torch.cat([{masked}, sink.float()[None, :, None, None].expand(B, H, Sq, 1)], -1)")
    } else {
        masked
    }
}

/// Returns the expression with scores, where SDPA has neither caps nor sinks.
fn of_scores((k, v): (&str, &str), mask: &str, has: &dyn Fn(&str) -> bool) -> String {
    let keys = if has("SINK") { "[..., :Sk]" } else { "" };
    format!("({}.softmax(-1){keys} @ {}).to(q.dtype)", scores(k, mask, has), repeated(v))
}

/// Returns the mask of visible keys.
fn mask(has_window: bool) -> String {
    let ones = "torch.ones(Sq, Sk, dtype=torch.bool, device=q.device)";
    if has_window {
        format!(
            "{ones}.tril(Sk - Sq if CAUSAL == 1 else Sk - Sq + WINDOW - 1 if WINDOW > 0 else Sk)\
             .triu(Sk - Sq - WINDOW + 1 if WINDOW > 0 else -Sq)"
        )
    } else {
        format!("{ones}.tril(Sk - Sq if CAUSAL == 1 else Sk)")
    }
}
