//! Linear layers as an expression of PyTorch, for exported modules.

/// Returns the expression for cases that give these of the optional dimensions.
pub fn expression(optional: &[&str]) -> String {
    let has = |name: &str| optional.contains(&name);
    if optional.is_empty() || optional == ["BIAS"] {
        let bias = if has("BIAS") { ", bias" } else { "" };
        // Torch multiplies no matrices of 8 bits without scales.
        return format!(
            "(F.linear(x, w{bias}) if x.element_size() > 1 else F.linear(x.float(), w.float(){}).bfloat16())",
            if has("BIAS") { ", bias.float()" } else { "" }
        );
    }
    let mut sums = "F.linear(x.float(), w.float().reshape(-1, K))".to_owned();
    if has("XSCALE") {
        sums += " * x_scale[:, None]";
    }
    if has("WSCALE") {
        sums += " * w_scale.reshape(-1)";
    }
    if has("BIAS") {
        sums += " + bias.float().reshape(-1)";
    }
    let activation = "{0: lambda y: y, 1: F.gelu, 2: lambda y: F.gelu(y, approximate='tanh'), 3: F.silu}[ACTIVATION]";
    let activated = |of: &str| if has("ACTIVATION") { format!("{activation}({of})") } else { of.to_owned() };
    let value = if has("GATED") {
        format!("(lambda y: {} * y[:, N:])({sums})", activated("y[:, :N]"))
    } else {
        activated(&format!("({sums})"))
    };
    let residual = if has("RESIDUAL") { " + residual.float()" } else { "" };
    format!("({value}{residual}).to(torch.bfloat16 if x.element_size() == 1 else x.dtype)")
}
