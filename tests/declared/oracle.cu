// Divides each row by its root mean square, and multiplies each column by a weight.
__global__ void oracle(const double *__restrict__ x, const double *w, double *y, long long N, double eps) {
    __shared__ double part[64];
    const long long row = blockIdx.x * N;
    double squares = 0;
    for (long long i = threadIdx.x; i < N; i += blockDim.x) squares += x[row + i] * x[row + i];
    part[threadIdx.x] = squares;
    __syncthreads();
    squares = 0;
    for (int i = 0; i < blockDim.x; ++i) squares += part[i];
    const double scale = 1 / sqrt(squares / N + eps);
    for (long long i = threadIdx.x; i < N; i += blockDim.x) y[row + i] = x[row + i] * scale * w[i];
}
