// The kernels of cpu_kernels.py by hand: OpenMP over threads, and within them loops that g++ vectorises, or (where it
// does not) vectors of 16 floats in GNU C++. Compiled by cpu.py at full optimisation for the machine it runs on.
#include <cmath>
#include <cstdint>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

typedef float f32v __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t i32v __attribute__((vector_size(64), aligned(4), may_alias));
constexpr int V = 16;

static inline f32v load(const float* p) { return *reinterpret_cast<const f32v*>(p); }
static inline void store(float* p, f32v v) { *reinterpret_cast<f32v*>(p) = v; }
static inline f32v all(float x) { return f32v{} + x; }
static inline f32v root(f32v v) {
  f32v r;
  for (int k = 0; k < V; k++) r[k] = __builtin_sqrtf(v[k]);
  return r;
}

static inline bool is_any(i32v v) {
#ifdef __AVX512F__
  return _mm512_test_epi32_mask((__m512i)v, (__m512i)v);
#else
  int32_t bits = 0;
  for (int k = 0; k < V; k++) bits |= v[k];
  return bits;
#endif
}

// libmvec's vector versions, which glibc's headers offer under -ffast-math only.
extern "C" {
__attribute__((simd("notinbranch"))) float sinf(float) noexcept;
__attribute__((simd("notinbranch"))) float expf(float) noexcept;
__attribute__((simd("notinbranch"))) float powf(float, float) noexcept;
}

extern "C" {

void saxpy(int64_t n, float a, const float* __restrict x, const float* __restrict y, float* __restrict out) {
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < n; i++) out[i] = a * x[i] + y[i];
}

void vec3(int64_t n, const float* __restrict a, const float* __restrict b, float* __restrict out) {
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < n; i++) {
    float x = a[3 * i], y = a[3 * i + 1], z = a[3 * i + 2];
    const float l = std::sqrt(x * x + y * y + z * z);
    x /= l; y /= l; z /= l;
    const float u = b[3 * i], v = b[3 * i + 1], w = b[3 * i + 2];
    out[3 * i] = y * w - z * v;
    out[3 * i + 1] = z * u - x * w;
    out[3 * i + 2] = x * v - y * u;
  }
}

void lbm(int64_t ny, int64_t nx, float omega, const float* __restrict f, float* __restrict g) {
  const int64_t plane = ny * nx;
#pragma omp parallel for schedule(static)
  for (int64_t y = 0; y < ny; y++) {
    const int64_t here = y * nx, up = (y ? y - 1 : ny - 1) * nx, down = (y < ny - 1 ? y + 1 : 0) * nx;
    const float* s[9] = {f + here, f + plane + here, f + 2 * plane + up, f + 3 * plane + here, f + 4 * plane + down,
                         f + 5 * plane + up, f + 6 * plane + up, f + 7 * plane + down, f + 8 * plane + down};
    auto cell = [&](int64_t x, int64_t w, int64_t e) __attribute__((always_inline)) {
      const float f0 = s[0][x], f1 = s[1][w], f2 = s[2][x], f3 = s[3][e], f4 = s[4][x], f5 = s[5][w], f6 = s[6][e],
                  f7 = s[7][e], f8 = s[8][w];
      const float rho = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8;
      const float ux = (f1 - f3 + f5 - f6 - f7 + f8) / rho, uy = (f2 - f4 + f5 + f6 - f7 - f8) / rho;
      const float rest = 1.f - 1.5f * (ux * ux + uy * uy), keep = 1.f - omega, p = ux + uy, m = uy - ux;
      const float w0 = omega * rho * 0.4444444444f, w1 = omega * rho * 0.1111111111f, w2 = omega * rho * 0.0277777778f;
      float* o = g + here + x;
      o[0] = keep * f0 + w0 * rest;
      o[plane] = keep * f1 + w1 * (rest + 3.f * ux + 4.5f * ux * ux);
      o[2 * plane] = keep * f2 + w1 * (rest + 3.f * uy + 4.5f * uy * uy);
      o[3 * plane] = keep * f3 + w1 * (rest - 3.f * ux + 4.5f * ux * ux);
      o[4 * plane] = keep * f4 + w1 * (rest - 3.f * uy + 4.5f * uy * uy);
      o[5 * plane] = keep * f5 + w2 * (rest + 3.f * p + 4.5f * p * p);
      o[6 * plane] = keep * f6 + w2 * (rest + 3.f * m + 4.5f * m * m);
      o[7 * plane] = keep * f7 + w2 * (rest - 3.f * p + 4.5f * p * p);
      o[8 * plane] = keep * f8 + w2 * (rest - 3.f * m + 4.5f * m * m);
    };
    cell(0, nx - 1, 1);
#pragma GCC ivdep
    for (int64_t x = 1; x < nx - 1; x++) cell(x, x - 1, x + 1);
    cell(nx - 1, nx - 2, 0);
  }
}

// n is a multiple of 32: two vectors of bodies in flight.
void nbody(int64_t n, const float* pos, const float* mass, float* acc) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; i += 2 * V) {
    f32v p[3][2], a[3][2] = {};
    for (int c = 0; c < 3; c++)
      for (int k = 0; k < 2 * V; k++) p[c][k / V][k % V] = pos[3 * (i + k) + c];
    for (int64_t j = 0; j < n; j++)
      for (int h = 0; h < 2; h++) {
        const f32v x = pos[3 * j] - p[0][h], y = pos[3 * j + 1] - p[1][h], z = pos[3 * j + 2] - p[2][h];
        const f32v r2 = x * x + y * y + z * z + 1e-3f, w = mass[j] / (r2 * root(r2));
        a[0][h] += x * w;
        a[1][h] += y * w;
        a[2][h] += z * w;
      }
    for (int c = 0; c < 3; c++)
      for (int k = 0; k < 2 * V; k++) acc[3 * (i + k) + c] = a[c][k / V][k % V];
  }
}

// n is a multiple of 64: four vectors in flight hide the latency of the recurrence.
void mandelbrot(int64_t n, int limit, int32_t* out) {
  constexpr int U = 4;
  const float step = 3.f / n;
#pragma omp parallel for schedule(dynamic, 8)
  for (int64_t y = 0; y < n; y++)
    for (int64_t x = 0; x < n; x += U * V) {
      f32v cr[U], zr[U] = {}, zi[U] = {};
      i32v count[U] = {};
      const f32v ci = all(-1.5f + y * step);
      for (int u = 0; u < U; u++)
        for (int k = 0; k < V; k++) cr[u][k] = -2.f + (x + u * V + k) * step;
      for (int it = 0; it < limit; it++) {
        i32v any = {};
        for (int u = 0; u < U; u++) {
          const f32v r2 = zr[u] * zr[u], i2 = zi[u] * zi[u];
          const i32v live = (i32v)(r2 + i2 <= 4.f);  // once out, never back: NaN compares false
          count[u] -= live;
          any |= live;
          zi[u] = 2.f * zr[u] * zi[u] + ci;
          zr[u] = r2 - i2 + cr[u];
        }
        if (!is_any(any)) break;
      }
      for (int u = 0; u < U; u++) *reinterpret_cast<i32v*>(out + y * n + x + u * V) = count[u];
    }
}

void gather(int64_t n, int64_t m, const float* __restrict x, const float* __restrict table, float* __restrict out) {
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < n; i++) {
    const float t = x[i] * (float)(m - 1);
    const int k = (int)t;
    const float s = t - (float)k;
    out[i] = table[k] * (1.f - s) + table[k + 1] * s;
  }
}

void row_sum(int64_t rows, int64_t columns, const float* a, float* out) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < rows; i++) {
    float s = 0;
#pragma omp simd reduction(+ : s)
    for (int64_t j = 0; j < columns; j++) s += a[i * columns + j];
    out[i] = s;
  }
}

// Tiles of 8 by 32 in registers; n is a multiple of 32.
void matmul(int64_t n, const float* __restrict a, const float* __restrict b, float* __restrict c) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; i += 8)
    for (int64_t j = 0; j < n; j += 2 * V) {
      f32v s[8][2] = {};
      for (int64_t k = 0; k < n; k++) {
        const f32v b0 = load(b + k * n + j), b1 = load(b + k * n + j + V);
        for (int r = 0; r < 8; r++) {
          const f32v x = all(a[(i + r) * n + k]);
          s[r][0] += x * b0;
          s[r][1] += x * b1;
        }
      }
      for (int r = 0; r < 8; r++) {
        store(c + (i + r) * n + j, s[r][0]);
        store(c + (i + r) * n + j + V, s[r][1]);
      }
    }
}

void elementary(int64_t n, const float* __restrict x, const float* __restrict y,
                                                       float* __restrict out) {
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < n; i++) out[i] = sinf(x[i]) * expf(-y[i]) + powf(x[i], y[i]) + sqrtf(x[i]);
}

void collatz(int64_t n, const int32_t* x, int32_t* out) {
#pragma omp parallel for schedule(dynamic, 64)
  for (int64_t b = 0; b < n / (2 * V); b++) {
    i32v v[2], steps[2] = {};
    for (int h = 0; h < 2; h++) v[h] = *reinterpret_cast<const i32v*>(x + (2 * b + h) * V);
    for (;;) {
      i32v any = {};
      for (int h = 0; h < 2; h++) {
        const i32v live = v[h] != 1, odd = (v[h] & 1) != 0;
        any |= live;
        steps[h] -= live;
        const i32v next = odd ? 3 * v[h] + 1 : v[h] >> 1;
        v[h] = live ? next : v[h];
      }
      if (!is_any(any)) break;
    }
    for (int h = 0; h < 2; h++) *reinterpret_cast<i32v*>(out + (2 * b + h) * V) = steps[h];
  }
}

void many(int64_t n, const float* __restrict a, const float* __restrict b, const float* __restrict c,
          const float* __restrict d, const float* __restrict e, const float* __restrict f, const float* __restrict g,
          const float* __restrict h, float* __restrict out) {
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < n; i++)
    out[i] = 0.1f * a[i] * b[i] + 0.2f * c[i] * d[i] + 0.3f * e[i] * f[i] + 0.4f * g[i] * h[i];
}

void mat33(int64_t n, const float* __restrict a, const float* __restrict b, float* __restrict out) {
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < n; i++) {
    const float *p = a + 9 * i, *q = b + 9 * i;
    float* o = out + 9 * i;
#define ENTRY(r, c) \
  o[3 * r + c] = p[3 * r] * q[c] + p[3 * r + 1] * q[3 + c] + p[3 * r + 2] * q[6 + c] + p[3 * c + r];
#define ROW(r) ENTRY(r, 0) ENTRY(r, 1) ENTRY(r, 2)
    ROW(0) ROW(1) ROW(2)
#undef ROW
#undef ENTRY
  }
}
}
