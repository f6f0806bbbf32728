// A driver that knows one graph: two kernels, one of them given as a CUkernel, and a node that is none.

#include <cuda.h>

#include <cstring>

static CUgraphNode node(size_t number) { return reinterpret_cast<CUgraphNode>(number); }

extern "C" {

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    if (graph != reinterpret_cast<CUgraph>(7)) return CUDA_ERROR_INVALID_VALUE;
    for (size_t number = 1; nodes != nullptr && number <= *count; ++number) nodes[number - 1] = node(number);
    *count = 3;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode asked, CUgraphNodeType *type) {
    *type = asked == node(2) ? CU_GRAPH_NODE_TYPE_MEMSET : CU_GRAPH_NODE_TYPE_KERNEL;
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode asked, CUDA_KERNEL_NODE_PARAMS *params) {
    std::memset(params, 0, sizeof *params);
    if (asked == node(1)) params->func = reinterpret_cast<CUfunction>(11);
    if (asked == node(3)) params->kern = reinterpret_cast<CUkernel>(12);
    params->gridDimX = 32, params->gridDimY = 2, params->gridDimZ = 1;
    params->blockDimX = 128, params->blockDimY = 1, params->blockDimZ = 3;
    params->sharedMemBytes = 1000;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
    *function = reinterpret_cast<CUfunction>(kernel);
    return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction function) {
    *name = function == reinterpret_cast<CUfunction>(11) ? "_Z5flashIfEvPfi" : "nvjet_hsh_64x256";
    return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction) {
    *value = attribute == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES ? 24 : attribute == CU_FUNC_ATTRIBUTE_NUM_REGS ? 168 : -1;
    return CUDA_SUCCESS;
}
}
