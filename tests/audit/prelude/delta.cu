#include <cuda_bf16.h>
using Element = __nv_bfloat16;
