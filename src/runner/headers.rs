//! The headers that a kernel may include: one list, with the text of those that neither NVRTC nor the toolkit has.

/// A header that kernels may include.
pub struct Header {
    /// The name by which it is included.
    pub name: &'static str,
    /// Its text, if optloop ships it. The toolkit has the others.
    pub text: Option<&'static str>,
}

/// Folders of the toolkit whose headers are all meant for kernels.
pub const FOLDERS: [&str; 5] = ["cooperative_groups/", "cub/block/", "cub/thread/", "cub/warp/", "cuda/"];

/// What NVRTC has without a header, such as assertions.
const BUILT_IN: &str = "#pragma once\n";

/// The limits of floating-point types.
const FLOAT: &str = "#pragma once
#define FLT_RADIX 2
#define FLT_MANT_DIG 24
#define FLT_DIG 6
#define FLT_MIN_EXP (-125)
#define FLT_MAX_EXP 128
#define FLT_MIN_10_EXP (-37)
#define FLT_MAX_10_EXP 38
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define FLT_TRUE_MIN 1.401298464e-45f
#define DBL_MANT_DIG 53
#define DBL_DIG 15
#define DBL_MIN_EXP (-1021)
#define DBL_MAX_EXP 1024
#define DBL_MIN_10_EXP (-307)
#define DBL_MAX_10_EXP 308
#define DBL_MAX 1.7976931348623157e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
#define DBL_TRUE_MIN 4.9406564584124654e-324
";

/// The limits of integers, which are macros.
const LIMITS: &str = "#pragma once\n#include <cuda/std/climits>\n";

/// Short names of integers. The host's headers, which nvcc includes, have them.
const TYPES: &str = "#pragma once
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
";

/// What kernels need of the driver's header. The rest of it is for the host, and NVRTC does not compile it.
const DRIVER: &str = "#pragma once
typedef struct alignas(64) CUtensorMap_st { unsigned long long opaque[16]; } CUtensorMap;
";

/// A part of libcu++ under the names of the standard library.
macro_rules! standard {
    ($name:literal) => {
        Some(concat!(
            "#pragma once\n#include <cuda/std/",
            $name,
            ">\nnamespace std {\nusing namespace ::cuda::std;\n}\n"
        ))
    };
}

/// The mathematical functions are built in, but not in `std`.
const MATH: &str = "#pragma once
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#ifndef INFINITY
#define INFINITY (__int_as_float(0x7f800000))
#endif
#ifndef NAN
#define NAN (__int_as_float(0x7fffffff))
#endif
";

const CMATH: &str = "#pragma once
#include <math.h>
#include <cuda/std/cmath>
namespace std {
using namespace ::cuda::std;
}
";

/// What kernels need of CUB. The rest of it is for the host, and NVRTC does not compile it. Later versions have the operators in
/// libcu++ only.
const CUB: &str = "#pragma once
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>
#include <cub/warp/warp_merge_sort.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>
#if CUB_MAJOR_VERSION >= 3
#include <cuda/functional>
namespace cub {
using Sum = ::cuda::std::plus<>;
using Min = ::cuda::minimum<>;
using Max = ::cuda::maximum<>;
}
#endif
";

/// The headers, by name.
pub const HEADERS: [Header; 35] = [
    shipped("assert.h", Some(BUILT_IN)),
    shipped("cassert", Some(BUILT_IN)),
    shipped("cfloat", Some(FLOAT)),
    shipped("climits", Some(LIMITS)),
    shipped("cmath", Some(CMATH)),
    of_the_toolkit("cooperative_groups.h"),
    shipped("cstddef", standard!("cstddef")),
    shipped("cstdint", standard!("cstdint")),
    of_the_toolkit("cuComplex.h"),
    shipped("cub/cub.cuh", Some(CUB)),
    shipped("cuda.h", Some(DRIVER)),
    of_the_toolkit("cuda_awbarrier.h"),
    of_the_toolkit("cuda_awbarrier_primitives.h"),
    of_the_toolkit("cuda_bf16.h"),
    of_the_toolkit("cuda_fp16.h"),
    of_the_toolkit("cuda_fp4.h"),
    of_the_toolkit("cuda_fp6.h"),
    of_the_toolkit("cuda_fp8.h"),
    of_the_toolkit("cuda_pipeline.h"),
    of_the_toolkit("cuda_pipeline_primitives.h"),
    of_the_toolkit("cuda_runtime.h"),
    of_the_toolkit("device_launch_parameters.h"),
    shipped("float.h", Some(FLOAT)),
    shipped("initializer_list", Some(BUILT_IN)),
    shipped("limits", standard!("limits")),
    shipped("limits.h", Some(LIMITS)),
    shipped("math.h", Some(MATH)),
    of_the_toolkit("math_constants.h"),
    of_the_toolkit("mma.h"),
    shipped("stddef.h", standard!("cstddef")),
    shipped("stdint.h", standard!("cstdint")),
    shipped("sys/types.h", Some(TYPES)),
    shipped("type_traits", standard!("type_traits")),
    shipped("utility", standard!("utility")),
    of_the_toolkit("vector_types.h"),
];

const fn shipped(name: &'static str, text: Option<&'static str>) -> Header {
    Header { name, text }
}

const fn of_the_toolkit(name: &'static str) -> Header {
    Header { name, text: None }
}

/// Returns the headers that a compiler must be given, with their texts.
pub fn given() -> impl Iterator<Item = (&'static str, &'static str)> {
    HEADERS.iter().filter_map(|header| Some((header.name, header.text?)))
}

/// Tells whether a kernel may include a header of this name.
pub fn is_allowed(name: &str) -> bool {
    let plain = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "_.".contains(c))
            && !part.starts_with('.')
    };
    let in_folder = FOLDERS.iter().any(|folder| name.starts_with(folder)) && name.split('/').all(plain);
    HEADERS.iter().any(|header| header.name == name) || in_folder
}
