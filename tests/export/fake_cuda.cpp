// Calls the C++ launcher of gemm-fp16 as a user would. The driver and NVRTC are fakes that note what they are asked.

#include "gemm_fp16.h"

#include <nvrtc.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

static std::string device_name = "NVIDIA H200";
static int compiled = 0, allocated = 0;

struct Launched {
    std::string kernel;
    unsigned grid[3], cluster[3];
    bool programmatic;
    CUstream stream;
    std::vector<unsigned long long> values;
};
static std::vector<Launched> launched;
static std::vector<std::string> kernels;
static std::vector<CUdeviceptr> mapped;

extern "C" {

CUresult cuCtxGetDevice(CUdevice *device) { return *device = 0, CUDA_SUCCESS; }
CUresult cuDeviceGetName(char *name, int size, CUdevice) {
    return std::snprintf(name, size, "%s", device_name.c_str()), CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice) {
    *value = which == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ? 132 : which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9 : 0;
    return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult, const char **name) { return *name = "an error", CUDA_SUCCESS; }
CUresult cuModuleLoadData(CUmodule *module, const void *) { return *module = reinterpret_cast<CUmodule>(1), CUDA_SUCCESS; }
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction *function, CUmodule, const char *name) {
    kernels.push_back(name);
    *function = reinterpret_cast<CUfunction>(kernels.size());
    return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
CUresult cuMemAlloc(CUdeviceptr *, size_t) { return ++allocated, CUDA_SUCCESS; }

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType, cuuint32_t rank, void *address, const cuuint64_t *sizes,
                                const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
    if (reinterpret_cast<size_t>(map) % 64 != 0 || rank != 2 || sizes[0] == 0 || swizzle != CU_TENSOR_MAP_SWIZZLE_128B) std::abort();
    mapped.push_back(reinterpret_cast<CUdeviceptr>(address));
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **arguments, void **) {
    Launched found = {};
    found.kernel = kernels[reinterpret_cast<size_t>(function) - 1];
    found.grid[0] = config->gridDimX, found.grid[1] = config->gridDimY, found.grid[2] = config->gridDimZ;
    for (unsigned at = 0; at < config->numAttrs; ++at) {
        const CUlaunchAttribute &attribute = config->attrs[at];
        if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) found.cluster[0] = attribute.value.clusterDim.x;
        found.programmatic |= attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    }
    found.stream = config->hStream;
    // Both kernels of the case have addresses first.
    const size_t count = found.kernel == "combine" ? 3 : 4;
    for (size_t at = 0; at < count; ++at) {
        unsigned long long value;
        std::memcpy(&value, arguments[at], sizeof value);
        found.values.push_back(value);
    }
    launched.push_back(found);
    return CUDA_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *, const char *, const char *, int, const char *const *, const char *const *) {
    return NVRTC_SUCCESS;
}
nvrtcResult nvrtcCompileProgram(nvrtcProgram, int count, const char *const *options) {
    if (std::strcmp(options[0], "-arch=sm_90a") != 0 || std::strcmp(options[count - 1], "-Iheaders") != 0) std::abort();
    return ++compiled, NVRTC_SUCCESS;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram *) { return NVRTC_SUCCESS; }
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram, size_t *size) { return *size = 4, NVRTC_SUCCESS; }
nvrtcResult nvrtcGetCUBIN(nvrtcProgram, char *) { return NVRTC_SUCCESS; }
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram, size_t *size) { return *size = 1, NVRTC_SUCCESS; }
nvrtcResult nvrtcGetProgramLog(nvrtcProgram, char *) { return NVRTC_SUCCESS; }
}

static void expect(bool holds, const char *what) {
    if (!holds) {
        std::printf("wrong: %s\n", what);
        std::exit(1);
    }
}

static optloop_gemm_fp16_dims dims_of(int64_t m, int64_t n, int64_t k) {
    optloop_gemm_fp16_dims dims = {};
    dims.M = m, dims.N = n, dims.K = k;
    return dims;
}

static void there_is_a_winner(int sources) {
    optloop_gemm_fp16_launcher *launcher = nullptr;
    const optloop_gemm_fp16_dims dims = dims_of(512, 512, 16384);
    const optloop_gemm_fp16_tensors tensors = {1 << 20, 2 << 20, 3 << 20};
    const CUdeviceptr workspace = 4 << 20;
    const CUstream stream = reinterpret_cast<CUstream>(7);
    const char *headers = "headers";
    size_t bytes = 0;
    expect(optloop_gemm_fp16_create(&launcher) == OPTLOOP_GEMM_FP16_SUCCESS, "create");
    const auto launch = [&](optloop_gemm_fp16_dims dims, optloop_gemm_fp16_tensors tensors) {
        return optloop_gemm_fp16_launch(launcher, &dims, &tensors, workspace, stream);
    };
    expect(launch(dims, tensors) == OPTLOOP_GEMM_FP16_NOT_LOADED, "not loaded");
    expect(optloop_gemm_fp16_load(launcher, &dims, &headers, 1) == OPTLOOP_GEMM_FP16_SUCCESS && compiled == 1, "load");
    expect(optloop_gemm_fp16_load(launcher, &dims, &headers, 1) == OPTLOOP_GEMM_FP16_SUCCESS && compiled == 1, "load again");
    expect(optloop_gemm_fp16_workspace_bytes(launcher, &dims, &bytes) == OPTLOOP_GEMM_FP16_SUCCESS, "workspace");
    expect(bytes == 4194304 + 65536, "the size of the workspace");

    expect(launch(dims, tensors) == OPTLOOP_GEMM_FP16_SUCCESS && launched.size() == 2 && allocated == 0, "launch");
    const Launched &first = launched[0], &second = launched[1];
    expect(first.kernel == "multiply" && first.grid[0] == 128 && first.cluster[0] == 2 && !first.programmatic, "first");
    expect(mapped.size() == 2 && mapped[0] == tensors.a && mapped[1] == tensors.b && first.values[2] == workspace, "its arguments");
    expect(second.kernel == "combine" && second.grid[1] == 32 && second.cluster[0] == 0 && second.programmatic, "second");
    expect(second.values[1] == workspace + 4194304 && second.values[2] == tensors.c, "its arguments");
    expect(first.stream == stream && second.stream == stream, "the stream");

    expect(launch(dims_of(512, 512, 16385), tensors) == OPTLOOP_GEMM_FP16_NO_WINNER, "another shape");
    expect(launch(dims, {1 << 20, 8, 3 << 20}) == OPTLOOP_GEMM_FP16_MISALIGNED, "a tensor in another place");
    expect(launched.size() == 2, "nothing else is launched");
    expect(optloop_gemm_fp16_load(launcher, nullptr, &headers, 1) == OPTLOOP_GEMM_FP16_SUCCESS && compiled == sources, "every source once");
    optloop_gemm_fp16_destroy(launcher);
}

static void on_another_device() {
    device_name = "NVIDIA H100 80GB HBM3";
    optloop_gemm_fp16_launcher *launcher = nullptr;
    const optloop_gemm_fp16_dims dims = dims_of(512, 512, 16384);
    size_t bytes = 0;
    expect(optloop_gemm_fp16_create(&launcher) == OPTLOOP_GEMM_FP16_SUCCESS, "create");
    expect(optloop_gemm_fp16_load(launcher, &dims, nullptr, 0) == OPTLOOP_GEMM_FP16_NO_WINNER, "load elsewhere");
    expect(optloop_gemm_fp16_workspace_bytes(launcher, &dims, &bytes) == OPTLOOP_GEMM_FP16_NO_WINNER, "workspace elsewhere");
    optloop_gemm_fp16_destroy(launcher);
}

// The argument is the number of sources of the exported winners.
int main(int, char **arguments) {
    there_is_a_winner(std::atoi(arguments[1]));
    on_another_device();
    std::printf("ok\n");
}
