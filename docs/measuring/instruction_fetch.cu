// Times straight-line code that runs once against its repetition, in launches of one CUDA graph: is it fetched for free?
//
//     nvcc -O3 -gencode=arch=compute_90a,code=sm_90a -o /tmp/fetch docs/measuring/instruction_fetch.cu && /tmp/fetch

#include <algorithm>
#include <cstdio>
#include <cuda_runtime.h>
#include <vector>

constexpr int LAUNCHES = 50;
constexpr int REPEATS = 25;
constexpr double CYCLES_PER_US = 1980;

// N dependent multiply-adds of 16 bytes each, `rounds` times over. Each has a latency of 4 cycles.
template <int N>
__global__ void straight(unsigned *out, unsigned factor, int rounds) {
  unsigned x = threadIdx.x;
#pragma unroll 1
  for (int round = 0; round < rounds; round++) {
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("mad.lo.u32 %0, %0, %1, 12345;" : "+r"(x) : "r"(factor));
  }
  if (x == 0x12345678u) out[0] = x;
}

// Returns the median time of a launch in microseconds.
template <int N>
double time_us(unsigned *out, int rounds, int blocks, int threads) {
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  cudaEvent_t begin, end;
  cudaStreamCreate(&stream);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  for (int i = 0; i < LAUNCHES; i++) straight<N><<<blocks, threads, 0, stream>>>(out, 3u, rounds);
  cudaStreamEndCapture(stream, &graph);
  cudaGraphInstantiate(&executable, graph, 0);
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  std::vector<double> times;
  for (int i = 0; i < REPEATS; i++) {
    float ms;
    cudaEventRecord(begin, stream);
    cudaGraphLaunch(executable, stream);
    cudaEventRecord(end, stream);
    cudaEventSynchronize(end);
    cudaEventElapsedTime(&ms, begin, end);
    times.push_back(1000.0 * ms / LAUNCHES);
  }
  std::sort(times.begin(), times.end());
  return times[REPEATS / 2];
}

template <int N>
void row(unsigned *out, int blocks, int threads) {
  double none = time_us<N>(out, 0, blocks, threads), once = time_us<N>(out, 1, blocks, threads);
  double twice = time_us<N>(out, 2, blocks, threads), five = time_us<N>(out, 5, blocks, threads);
  double first = once - none, repeated = (five - twice) / 3;
  printf("%3d blocks of %3d threads, %4d instructions: first %.3f us, repeated %.3f us, %.2f cycles more an instruction\n",
         blocks, threads, N, first, repeated, (first - repeated) * CYCLES_PER_US / N);
}

int main() {
  unsigned *out;
  if (cudaMalloc(&out, sizeof *out) != cudaSuccess) {
    fprintf(stderr, "no GPU\n");
    return 1;
  }
  for (int threads : {32, 128, 512})
    for (int blocks : {1, 132}) {
      row<64>(out, blocks, threads);
      row<256>(out, blocks, threads);
      row<512>(out, blocks, threads);
      row<1024>(out, blocks, threads);
      row<2048>(out, blocks, threads);
      row<4096>(out, blocks, threads);
    }
  return 0;
}
