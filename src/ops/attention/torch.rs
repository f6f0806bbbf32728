//! Attention as an expression of PyTorch, for exported modules.

/// Torch's own causal mask lets the first query see the first key only. optloop's lets the last query see every key, which
/// is the same for as many queries as keys. Torch has shared heads since 2.5.
const PLAIN: &str = "F.scaled_dot_product_attention(q, k, v, **({'is_causal': True} if CAUSAL == 1 and Sq == Sk \
    else {'attn_mask': torch.ones(Sq, Sk, dtype=torch.bool, device=q.device).tril(Sk - Sq)} if CAUSAL == 1 \
    else {}), **({} if q.shape[1] == k.shape[1] else {'enable_gqa': True}))";

/// Returns the expression for cases that give these of the optional dimensions.
pub fn expression(optional: &[&str]) -> String {
    let has = |name: &str| optional.contains(&name);
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
    // SDPA has neither caps nor sinks.
    let repeated = |name: &str| format!("{name}.repeat_interleave(H // {name}.shape[1], 1).float()");
    let scores = format!("(q.float() @ {}.transpose(-2, -1)) / D ** 0.5", repeated("k"));
    let capped = if has("SOFTCAP") {
        format!("({scores} if SOFTCAP == 0 else SOFTCAP * torch.tanh({scores} / SOFTCAP))")
    } else {
        format!("({scores})")
    };
    let masked = format!("{capped}.masked_fill(~{mask}, -torch.inf)");
    let weights = if has("SINK") {
        let sinks = "sink.float()[None, :, None, None].expand(B, H, Sq, 1)";
        format!("torch.cat([{masked}, {sinks}], -1).softmax(-1)[..., :Sk]")
    } else {
        format!("{masked}.softmax(-1)")
    };
    format!("({weights} @ {}).to(q.dtype)", repeated("v"))
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
