/*
about = "Takes the next expert after the last row of one, which may have none."
kind = "broken"
caught_by = ["wrong/accuracy", "wrong/hidden", "wrong/probe"]
workload = "grouped-linear-bf16"
case = { M = 60, N = 40, K = 48, EXPERTS = 6, ACTIVATION = 3, GATED = 1 }
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
    int expert = 0;
    for (int of_row = 1; of_row <= row; ++of_row)
        if (of_row == offsets[expert + 1]) ++expert;  // <--
    return min(expert, <$ EXPERTS $> - 1);
}
