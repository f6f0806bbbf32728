// The names that every kernel of the corpus uses.
#include <cuda_fp16.h>

using Element = <% if DTYPE == "f32" %>float<% else %>__half<% endif %>;  // of inputs and output
constexpr int D = <$ D $>;                   // head dimension
constexpr bool CAUSAL = <$ CAUSAL $>;        // key j is visible to query i iff j <= i + Sk - Sq
constexpr int PART = (D + 31) / 32;          // dimensions of a lane: lane, lane + 32, ...
