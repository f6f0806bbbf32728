/*
about = "Takes it that all experts have the same number of rows."
kind = "broken"
caught_by = ["wrong/hidden", "wrong/probe"]
workload = "grouped-linear-bf16"
case = { M = 60, N = 40, K = 48, EXPERTS = 6, ACTIVATION = 3, GATED = 1, SHORTEST = 10 }
constants = ["EXPERTS", "ACTIVATION", "GATED", "SHORTEST"]
prelude = ["grouped-linear"]

[[constraint]]
expr = "ACTIVATION == 3 && GATED == 1 && M <= 65535"
why = "It computes this layer only."

[[launch]]
kernel = "multiply"
grid = ["ceil_div(N, 32)", "M"]
block = ["32"]
args = ["x", "offsets", "w", "w_up?", "y", "M", "N", "K"]
*/
__device__ int expert_of(const int* offsets, int row, int M) {
    const int each = (M + <$ EXPERTS $> - 1) / <$ EXPERTS $>;  // <--
    return row / each;
}
