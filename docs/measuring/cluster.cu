// Times what blocks of a cluster do together, and special functions in half precision, on one GPU of Hopper's generation.
//
//     nvcc -O3 -gencode=arch=compute_90a,code=sm_90a -o /tmp/cluster docs/measuring/cluster.cu && /tmp/cluster
//
// Cycles are read with clock64 inside of one kernel. Times of launches come from graphs of 100 of them.

#include <algorithm>
#include <cooperative_groups.h>
#include <cstdint>
#include <cstdio>
#include <cuda_runtime.h>
#include <vector>

constexpr int STEPS = 256;
constexpr int WORDS = 4096;

#define CHECK(call)                                                                                                  \
  do {                                                                                                               \
    cudaError_t error = (call);                                                                                      \
    if (error != cudaSuccess) {                                                                                      \
      fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));                                                 \
      exit(1);                                                                                                       \
    }                                                                                                                \
  } while (0)

__device__ uint32_t shared_address(const void *pointer) { return (uint32_t)__cvta_generic_to_shared(pointer); }

__device__ uint32_t of_rank(uint32_t address, uint32_t rank) {
  uint32_t remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
  return remote;
}

__device__ uint32_t rank_here() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

__device__ uint32_t ranks() {
  uint32_t count;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
  return count;
}

__device__ void arrive() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }
__device__ void wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }

enum What { LOCAL_LOAD, REMOTE_LOAD, REMOTE_ATOMIC, LOCAL_ATOMIC, BLOCK_BARRIER, CLUSTER_BARRIER, MAPA, REMOTE_ARRIVE, LOCAL_ARRIVE };

// Cycles of the steps of a dependent chain, in the first warp of the first block.
template <What what>
__global__ void chain(unsigned long long *out) {
  __shared__ uint32_t words[WORDS];
  __shared__ alignas(8) uint64_t barrier;
  for (int i = threadIdx.x; i < WORDS; i += blockDim.x) words[i] = 4 * ((i * 4 + 32) % WORDS) % (4 * WORDS);
  uint32_t rank = rank_here(), other = (rank + 1) % ranks();
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(1));
  __syncthreads();
  arrive();
  wait();
  uint32_t here = shared_address(words), there = of_rank(here, other), offset = 4 * threadIdx.x % 128;
  uint32_t barrier_here = shared_address(&barrier), barrier_there = of_rank(barrier_here, other);
  bool first = rank == 0 && threadIdx.x < 32;
  unsigned long long begun = clock64();
  if (what == BLOCK_BARRIER) {
    for (int i = 0; i < STEPS; i++) __syncthreads();
  } else if (what == CLUSTER_BARRIER) {
    for (int i = 0; i < STEPS; i++) arrive(), wait();
  } else if (first) {
    for (int i = 0; i < STEPS; i++) {
      if (what == LOCAL_LOAD) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(offset) : "r"(here + offset));
      if (what == REMOTE_LOAD) asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(offset) : "r"(there + offset));
      if (what == LOCAL_ATOMIC)
        asm volatile("atom.shared.add.u32 %0, [%1], %2;" : "=r"(offset) : "r"(here + (offset & 4095)), "r"(0) : "memory");
      if (what == REMOTE_ATOMIC)
        asm volatile("atom.shared::cluster.add.u32 %0, [%1], %2;" : "=r"(offset) : "r"(there + (offset & 4095)), "r"(0) : "memory");
      if (what == MAPA) offset = of_rank(offset, other);
      // One lane arrives, and waits until the phase is over.
      if ((what == LOCAL_ARRIVE || what == REMOTE_ARRIVE) && threadIdx.x == 0) {
        if (what == LOCAL_ARRIVE)
          asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier_here) : "memory");
        else
          asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier_there) : "memory");
      }
    }
  }
  unsigned long long ended = clock64();
  if (rank == 0 && threadIdx.x == 0 && blockIdx.x < ranks()) out[0] = (ended - begun), out[1] = offset;
  arrive();
  wait();
}

// Cycles from an arrival at a barrier of the other block until it is seen there and answered here: two remote arrivals.
__global__ void ping(unsigned long long *out) {
  __shared__ alignas(8) uint64_t barrier;
  uint32_t rank = rank_here();
  uint32_t here = shared_address(&barrier), there = of_rank(here, rank ^ 1);
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(here));
  __syncthreads();
  arrive();
  wait();
  unsigned long long begun = clock64();
  if (threadIdx.x == 0)
    for (int i = 0; i < STEPS; i++) {
      auto send = [&] { asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory"); };
      auto receive = [&] {
        asm volatile("{\n.reg .pred done;\nagain: mbarrier.try_wait.parity.acquire.cluster.shared.b64 done, [%0], %1;\n@!done bra again;\n}"
                     ::"r"(here), "r"(i & 1) : "memory");
      };
      if (rank == 0) send(), receive();
      else receive(), send();
    }
  unsigned long long ended = clock64();
  if (rank == 0 && threadIdx.x == 0) out[0] = ended - begun;
  arrive();
  wait();
}

// Bytes that a block reads or writes per cycle while all blocks of its cluster do.
template <int MODE>
__global__ void stream(unsigned long long *out) {
  extern __shared__ uint4 data[];
  uint32_t other = (rank_here() + 1) % ranks();
  uint32_t at = shared_address(data) + 16 * threadIdx.x;
  if (MODE >= 1) at = of_rank(at, other);
  uint4 sum = {1, 2, 3, 4};
  arrive();
  wait();
  unsigned long long begun = clock64();
#pragma unroll 8
  for (int i = 0; i < STEPS; i++) {
    uint4 x;
    uint32_t from = at + (i % 2) * 16 * blockDim.x;
    if (MODE == 0) asm volatile("ld.volatile.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "r"(from));
    if (MODE == 1)
      asm volatile("ld.volatile.shared::cluster.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "r"(from));
    if (MODE == 2)
      asm volatile("st.shared::cluster.v4.u32 [%4], {%0,%1,%2,%3};" ::"r"(sum.x), "r"(sum.y), "r"(sum.z), "r"(sum.w), "r"(from) : "memory");
    if (MODE < 2) sum.x ^= x.x, sum.y ^= x.y, sum.z ^= x.z, sum.w ^= x.w;
  }
  arrive();
  wait();
  unsigned long long ended = clock64();
  if (threadIdx.x == 0 && blockIdx.x == 0) out[0] = ended - begun;
  if ((sum.x ^ sum.y ^ sum.z ^ sum.w) == 0x12345) out[2] = sum.x;
}

// Cycles of one warp instruction on its partition, with `warps` warps on it and eight independent chains in each.
enum Function { EX2_F32, EX2_F16X2, EX2_BF16X2, TANH_F32, TANH_F16X2, CVT_F16X2, HFMA2 };
template <Function F>
__global__ void special(unsigned long long *out, uint32_t seed) {
  uint32_t x[8];
  for (int i = 0; i < 8; i++) x[i] = seed * (threadIdx.x + i);
  unsigned long long begun = clock64();
#pragma unroll 4
  for (int step = 0; step < STEPS; step++)
#pragma unroll
    for (int i = 0; i < 8; i++) {
      if (F == EX2_F32) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+r"(x[i]));
      if (F == EX2_F16X2) asm volatile("ex2.approx.f16x2 %0, %0;" : "+r"(x[i]));
      if (F == EX2_BF16X2) asm volatile("ex2.approx.ftz.bf16x2 %0, %0;" : "+r"(x[i]));
      if (F == TANH_F32) asm volatile("tanh.approx.f32 %0, %0;" : "+r"(x[i]));
      if (F == TANH_F16X2) asm volatile("tanh.approx.f16x2 %0, %0;" : "+r"(x[i]));
      if (F == CVT_F16X2) asm volatile("cvt.rn.f16x2.f32 %0, %0, %0;" : "+r"(x[i]));
      if (F == HFMA2) asm volatile("fma.rn.f16x2 %0, %0, %0, %0;" : "+r"(x[i]));
    }
  unsigned long long ended = clock64();
  uint32_t all = 0;
  for (uint32_t one : x) all ^= one;
  if (threadIdx.x == 0) out[0] = ended - begun;
  if (all == 0x1234567) out[1] = all;
}

__global__ void empty() {}

template <typename... Arguments>
void launch(void (*kernel)(Arguments...), int blocks, int threads, int cluster, int shared, cudaStream_t stream, Arguments... arguments) {
  CHECK(cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  CHECK(cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks, config.blockDim = threads, config.dynamicSmemBytes = shared, config.stream = stream;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {(unsigned)cluster, 1, 1};
  config.attrs = &attribute, config.numAttrs = cluster > 0 ? 1 : 0;
  CHECK(cudaLaunchKernelEx(&config, kernel, arguments...));
}

unsigned long long *result;

double read_back() {
  CHECK(cudaDeviceSynchronize());
  return (double)result[0];
}

template <What what>
double steps(int threads, int cluster) {
  double best = 1e30;
  for (int i = 0; i < 5; i++) {
    launch(chain<what>, cluster, threads, cluster, 0, 0, result);
    best = std::min(best, read_back() / STEPS);
  }
  return best;
}

template <int MODE>
void bandwidth(const char *name, int cluster, int threads) {
  double best = 1e30;
  int shared = 2 * 16 * threads;
  for (int i = 0; i < 5; i++) {
    launch(stream<MODE>, cluster * (128 / cluster), threads, cluster, shared, 0, result);
    best = std::min(best, read_back());
  }
  printf("%s, clusters of %d, %d threads: %.1f bytes a cycle for each block\n", name, cluster, threads, 16.0 * threads * STEPS / best);
}

template <Function F>
void rate(const char *name) {
  double alone = 1e30, full = 1e30;
  for (int i = 0; i < 5; i++) {
    launch(special<F>, 1, 128, 0, 0, 0, result, 3u);
    alone = std::min(alone, read_back());
    launch(special<F>, 1, 512, 0, 0, 0, result, 3u);
    full = std::min(full, read_back());
  }
  printf("%-12s %.2f cycles a warp instruction with 1 warp on each partition, %.2f with 4\n", name, alone / (8 * STEPS),
         full / (8 * STEPS) / 4);
}

double launch_us(int blocks, int threads, int cluster) {
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  cudaEvent_t begin, end;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < 100; i++) launch(empty, blocks, threads, cluster, 0, stream);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  std::vector<float> times;
  for (int i = 0; i < 25; i++) {
    float ms;
    CHECK(cudaEventRecord(begin, stream));
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaEventRecord(end, stream));
    CHECK(cudaEventSynchronize(end));
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    times.push_back(10.0f * ms);
  }
  std::sort(times.begin(), times.end());
  return times[12];
}

int main() {
  CHECK(cudaMallocManaged(&result, 64));
  printf("dependent steps, cycles\n");
  printf("  load from shared memory: own %.1f; another block's, in clusters of 2: %.1f, 4: %.1f, 8: %.1f, 16: %.1f\n",
         steps<LOCAL_LOAD>(32, 2), steps<REMOTE_LOAD>(32, 2), steps<REMOTE_LOAD>(32, 4), steps<REMOTE_LOAD>(32, 8),
         steps<REMOTE_LOAD>(32, 16));
  printf("  atomic: own %.1f, another block's %.1f\n", steps<LOCAL_ATOMIC>(32, 2), steps<REMOTE_ATOMIC>(32, 2));
  printf("  mapa %.1f; arrivals at an mbarrier, not waited for: own %.1f, another block's %.1f\n", steps<MAPA>(32, 2),
         steps<LOCAL_ARRIVE>(32, 2), steps<REMOTE_ARRIVE>(32, 2));
  double best = 1e30;
  for (int i = 0; i < 5; i++) {
    launch(ping, 2, 32, 2, 0, 0, result);
    best = std::min(best, read_back() / STEPS);
  }
  printf("  an arrival at another block's mbarrier, seen and answered: %.1f\n", best);
  for (int threads : {32, 128, 256, 512, 1024}) {
    printf("  barriers of %4d threads: block %.1f; cluster of 1: %.1f, 2: %.1f, 4: %.1f, 8: %.1f, 16: %.1f\n", threads,
           steps<BLOCK_BARRIER>(threads, 1), steps<CLUSTER_BARRIER>(threads, 1), steps<CLUSTER_BARRIER>(threads, 2),
           steps<CLUSTER_BARRIER>(threads, 4), steps<CLUSTER_BARRIER>(threads, 8), steps<CLUSTER_BARRIER>(threads, 16));
  }
  printf("streams of 16 bytes a thread\n");
  for (int threads : {256, 1024}) {
    bandwidth<0>("  own loads", 2, threads);
    for (int cluster : {2, 4, 8}) bandwidth<1>("  remote loads", cluster, threads);
    for (int cluster : {2, 4, 8}) bandwidth<2>("  remote stores", cluster, threads);
  }
  printf("special functions\n");
  rate<EX2_F32>("ex2 f32"), rate<EX2_F16X2>("ex2 f16x2"), rate<EX2_BF16X2>("ex2 bf16x2");
  rate<TANH_F32>("tanh f32"), rate<TANH_F16X2>("tanh f16x2"), rate<CVT_F16X2>("cvt f16x2"), rate<HFMA2>("fma f16x2");
  printf("launches of an empty kernel in a graph, us\n");
  for (int threads : {128, 512})
    for (int blocks : {16, 128, 1056})
      printf("  %4d blocks of %3d threads: no cluster %.3f; clusters of 1: %.3f, 2: %.3f, 4: %.3f, 8: %.3f, 16: %.3f\n", blocks, threads,
             launch_us(blocks, threads, 0), launch_us(blocks, threads, 1), launch_us(blocks, threads, 2),
             launch_us(blocks, threads, 4), launch_us(blocks, threads, 8), launch_us(blocks, threads, 16));
  return 0;
}
