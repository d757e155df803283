// Gradients of shared_number and shared_weights by hand: OpenMP, partial sums in vectors.
#include <cstdint>

extern "C" {

void shared_number(int64_t n, float a, const float* __restrict x, const float* __restrict ct, float* out) {
  float s = 0;
#pragma omp parallel for simd reduction(+ : s) schedule(static)
  for (int64_t i = 0; i < n; i++) {
    const float q = x[i] * x[i], d = 1.f + a * q;
    s -= ct[i] * x[i] * q / (d * d);
  }
  *out = s;
}

// 16 weights, each with a vector of partial sums.
void shared_weights(int64_t n, const float* __restrict x, const float* __restrict ct, float* out) {
  constexpr int K = 16;
  float s[K] = {};
#pragma omp parallel for reduction(+ : s[ : K]) schedule(static)
  for (int64_t block = 0; block < n / 4096; block++) {
    const float *xs = x + 4096 * block, *cts = ct + 4096 * block;
    for (int k = 0; k < K; k++) {
      float t = 0;
#pragma omp simd reduction(+ : t)
      for (int i = 0; i < 4096; i++) t += cts[i] * xs[i + k];
      s[k] += t;
    }
  }
  for (int k = 0; k < K; k++) out[k] = s[k];
}
}
