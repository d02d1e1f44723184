extern "C" __global__ void known(float* out, const float* in, int n) {
    __shared__ float tile[96];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x < 96) tile[threadIdx.x] = i < n ? in[i] : 0.0f;
    __syncthreads();
    if (i < n) out[i] = tile[95 - threadIdx.x % 96];
}
// Indexing a local array by a run-time number keeps it in memory: a stack frame.
extern "C" __global__ void stacked(int* out, const int* in, int at) {
    int local[10];
    for (int i = 0; i < 10; ++i) local[i] = in[i + threadIdx.x];
    for (int i = 0; i < 10; ++i) local[(i * at) & 7] += i;
    out[threadIdx.x] = local[at & 7];
}
