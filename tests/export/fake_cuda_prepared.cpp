// Calls the C++ launcher of a winner that prepares its weights. The driver is a fake that notes what is launched.

#include "layer.h"

#include <cstdio>

// Launches of each kernel, and the packed weights that the last one took.
static int prepared = 0, multiplied = 0;
static CUdeviceptr packed = 0;

extern "C" {

CUresult cuCtxGetDevice(CUdevice *device) { return *device = 0, CUDA_SUCCESS; }
CUresult cuDeviceGetName(char *name, int size, CUdevice) { return std::snprintf(name, size, "NVIDIA H200"), CUDA_SUCCESS; }
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice) {
    *value = which == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ? 132 : which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9 : 0;
    return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult, const char **name) { return *name = "an error", CUDA_SUCCESS; }
CUresult cuModuleLoadData(CUmodule *module, const void *) { return *module = reinterpret_cast<CUmodule>(1), CUDA_SUCCESS; }
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction *function, CUmodule, const char *name) {
    return *function = reinterpret_cast<CUfunction>(name[0] == 'r' ? 1 : 2), CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
CUresult cuTensorMapEncodeTiled(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *,
                                const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
    return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuLaunchKernelEx(const CUlaunchConfig *, CUfunction function, void **arguments, void **) {
    const bool prepares = function == reinterpret_cast<CUfunction>(1);
    (prepares ? prepared : multiplied) += 1;
    packed = *static_cast<CUdeviceptr *>(arguments[1]);
    return CUDA_SUCCESS;
}
}

int main() {
    optloop_layer_launcher *launcher = nullptr;
    optloop_layer_dims dims = {};
    dims.M = 2, dims.N = 8, dims.K = 8;
    const optloop_layer_tensors tensors = {1 << 20, 2 << 20, 3 << 20};
    const CUdeviceptr workspace = 8 << 20, own = 9 << 20;
    size_t workspace_bytes = 0, prepared_bytes = 0;
    bool is_right = optloop_layer_create(&launcher) == OPTLOOP_LAYER_SUCCESS &&
                    optloop_layer_load(launcher, &dims, nullptr, 0) == OPTLOOP_LAYER_SUCCESS &&
                    optloop_layer_workspace_bytes(launcher, &dims, &workspace_bytes) == OPTLOOP_LAYER_SUCCESS &&
                    optloop_layer_prepared_bytes(launcher, &dims, &prepared_bytes) == OPTLOOP_LAYER_SUCCESS &&
                    workspace_bytes == 512 && prepared_bytes == 256;
    // Without a preparation of the caller, the launch has its own in the workspace.
    is_right = is_right && optloop_layer_launch(launcher, &dims, &tensors, workspace, nullptr) == OPTLOOP_LAYER_SUCCESS &&
               prepared == 1 && multiplied == 1 && packed == workspace + 256;
    is_right = is_right && optloop_layer_prepare(launcher, &dims, &tensors, own, nullptr) == OPTLOOP_LAYER_SUCCESS &&
               prepared == 2 && multiplied == 1 && packed == own;
    is_right = is_right &&
               optloop_layer_launch_prepared(launcher, &dims, &tensors, own, workspace, nullptr) == OPTLOOP_LAYER_SUCCESS &&
               prepared == 2 && multiplied == 2 && packed == own;
    optloop_layer_destroy(launcher);
    std::printf("%s\n", is_right ? "ok" : "wrong");
}
