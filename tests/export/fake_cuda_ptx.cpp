// Calls the C++ launcher of a winner in PTX. The driver is a fake that notes what it loads. There is no NVRTC.

#include "small.h"

#include <cstdio>
#include <cstring>

static int loaded = 0, launched = 0;

extern "C" {

CUresult cuCtxGetDevice(CUdevice *device) { return *device = 0, CUDA_SUCCESS; }
CUresult cuDeviceGetName(char *name, int size, CUdevice) { return std::snprintf(name, size, "NVIDIA H200"), CUDA_SUCCESS; }
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice) {
    *value = which == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ? 132 : which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9 : 0;
    return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult, const char **name) { return *name = "an error", CUDA_SUCCESS; }
CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    const char *text = static_cast<const char *>(image);
    const bool is_whole = std::strncmp(text, ".version 8.3", 12) == 0 && std::strstr(text, "ret;\n}") != nullptr;
    loaded += is_whole;
    *module = reinterpret_cast<CUmodule>(1);
    return is_whole ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}
CUresult cuModuleUnload(CUmodule) { return --loaded, CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction *function, CUmodule, const char *) {
    return *function = reinterpret_cast<CUfunction>(1), CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
CUresult cuTensorMapEncodeTiled(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *,
                                const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
    return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction, void **, void **) {
    launched += config->gridDimX;
    return CUDA_SUCCESS;
}
}

int main() {
    optloop_small_launcher *launcher = nullptr;
    optloop_small_dims dims = {};
    dims.R = 8, dims.N = 64, dims.MODE = 2;
    const optloop_small_tensors tensors = {1 << 20, 2 << 20, 3 << 20, 4 << 20};
    const bool is_ready = optloop_small_create(&launcher) == OPTLOOP_SMALL_SUCCESS &&
                          optloop_small_load(launcher, &dims, nullptr, 0) == OPTLOOP_SMALL_SUCCESS && loaded == 1;
    const bool is_launched = is_ready && optloop_small_launch(launcher, &dims, &tensors, 0, nullptr) == OPTLOOP_SMALL_SUCCESS;
    // The second shape on which the kernel was checked.
    dims.R = 16;
    const bool is_proven = is_launched && optloop_small_load(launcher, &dims, nullptr, 0) == OPTLOOP_SMALL_SUCCESS &&
                           optloop_small_launch(launcher, &dims, &tensors, 0, nullptr) == OPTLOOP_SMALL_SUCCESS;
    optloop_small_destroy(launcher);
    std::printf("%s\n", is_proven && launched == 8 + 16 && loaded == 0 ? "ok" : "wrong");
}
