// The kernels of cpu_kernels.py by hand: OpenMP over threads, and within them loops that g++ vectorises, or (where it
// does not) vectors in GNU C++, as wide as the machine's registers. What is not in them is an intrinsic.
// Compiled by cpu.py at full optimisation for the machine it runs on, once with REAL=float, once with REAL=double.
#include <cmath>
#include <cstdint>
#include <type_traits>
#ifdef __AVX__
#include <immintrin.h>
#endif

#ifndef REAL
#define REAL float
#endif

typedef REAL T;
constexpr bool is_single = sizeof(T) == 4;

#if defined __AVX512F__
#define BYTES 64
constexpr int TILE = 8;  // rows of a tile of matmul: it takes 2 TILE + 3 registers
#elif defined __AVX__
#define BYTES 32
constexpr int TILE = 6;
#else
#define BYTES 16
constexpr int TILE = 6;
#endif

typedef std::conditional_t<is_single, int32_t, int64_t> Int;
typedef T Reals __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias));
typedef Int Ints __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias));
typedef int32_t Words __attribute__((vector_size(BYTES), aligned(4), may_alias));
constexpr int V = BYTES / sizeof(T), WORDS = BYTES / 4;

static inline Reals load(const T* p) { return *reinterpret_cast<const Reals*>(p); }
static inline void store(T* p, Reals v) { *reinterpret_cast<Reals*>(p) = v; }
static inline Reals all(T x) {
  Reals r;
  for (int k = 0; k < V; k++) r[k] = x;
  return r;
}

static inline Reals root(Reals v) {
  Reals r;
  for (int k = 0; k < V; k++) r[k] = std::sqrt(v[k]);
  return r;
}

template <typename Vector>
static inline bool is_any(Vector v) {
#if defined __AVX512F__
  return _mm512_test_epi32_mask((__m512i)v, (__m512i)v);
#elif defined __AVX__
  return !_mm256_testz_si256((__m256i)v, (__m256i)v);
#else
  int64_t bits = 0;
  for (int k = 0; k < int(sizeof v / sizeof v[0]); k++) bits |= v[k];
  return bits;
#endif
}

// libmvec's vector versions, which glibc's headers offer under -ffast-math only.
extern "C" {
__attribute__((simd("notinbranch"))) float sinf(float) noexcept;
__attribute__((simd("notinbranch"))) float expf(float) noexcept;
__attribute__((simd("notinbranch"))) float powf(float, float) noexcept;
__attribute__((simd("notinbranch"))) double sin(double) noexcept;
__attribute__((simd("notinbranch"))) double exp(double) noexcept;
__attribute__((simd("notinbranch"))) double pow(double, double) noexcept;
}

extern "C" {

void saxpy(int64_t n, T a, const T* __restrict x, const T* __restrict y, T* __restrict out) {
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < n; i++) out[i] = a * x[i] + y[i];
}

void vec3(int64_t n, const T* __restrict a, const T* __restrict b, T* __restrict out) {
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < n; i++) {
    T x = a[3 * i], y = a[3 * i + 1], z = a[3 * i + 2];
    const T l = std::sqrt(x * x + y * y + z * z);
    x /= l; y /= l; z /= l;
    const T u = b[3 * i], v = b[3 * i + 1], w = b[3 * i + 2];
    out[3 * i] = y * w - z * v;
    out[3 * i + 1] = z * u - x * w;
    out[3 * i + 2] = x * v - y * u;
  }
}

void lbm(int64_t ny, int64_t nx, T omega, const T* __restrict f, T* __restrict g) {
  const int64_t plane = ny * nx;
  constexpr T k0 = T(4) / 9, k1 = T(1) / 9, k2 = T(1) / 36, one = 1, half3 = 1.5, three = 3, half9 = 4.5;
#pragma omp parallel for schedule(static)
  for (int64_t y = 0; y < ny; y++) {
    const int64_t here = y * nx, up = (y ? y - 1 : ny - 1) * nx, down = (y < ny - 1 ? y + 1 : 0) * nx;
    const T* s[9] = {f + here, f + plane + here, f + 2 * plane + up, f + 3 * plane + here, f + 4 * plane + down,
                     f + 5 * plane + up, f + 6 * plane + up, f + 7 * plane + down, f + 8 * plane + down};
    auto cell = [&](int64_t x, int64_t w, int64_t e) __attribute__((always_inline)) {
      const T f0 = s[0][x], f1 = s[1][w], f2 = s[2][x], f3 = s[3][e], f4 = s[4][x], f5 = s[5][w], f6 = s[6][e],
              f7 = s[7][e], f8 = s[8][w];
      const T rho = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8;
      const T ux = (f1 - f3 + f5 - f6 - f7 + f8) / rho, uy = (f2 - f4 + f5 + f6 - f7 - f8) / rho;
      const T rest = one - half3 * (ux * ux + uy * uy), keep = one - omega, p = ux + uy, m = uy - ux;
      const T w0 = omega * rho * k0, w1 = omega * rho * k1, w2 = omega * rho * k2;
      T* o = g + here + x;
      o[0] = keep * f0 + w0 * rest;
      o[plane] = keep * f1 + w1 * (rest + three * ux + half9 * ux * ux);
      o[2 * plane] = keep * f2 + w1 * (rest + three * uy + half9 * uy * uy);
      o[3 * plane] = keep * f3 + w1 * (rest - three * ux + half9 * ux * ux);
      o[4 * plane] = keep * f4 + w1 * (rest - three * uy + half9 * uy * uy);
      o[5 * plane] = keep * f5 + w2 * (rest + three * p + half9 * p * p);
      o[6 * plane] = keep * f6 + w2 * (rest + three * m + half9 * m * m);
      o[7 * plane] = keep * f7 + w2 * (rest - three * p + half9 * p * p);
      o[8 * plane] = keep * f8 + w2 * (rest - three * m + half9 * m * m);
    };
    cell(0, nx - 1, 1);
#pragma GCC ivdep
    for (int64_t x = 1; x < nx - 1; x++) cell(x, x - 1, x + 1);
    cell(nx - 1, nx - 2, 0);
  }
}

// n is a multiple of 2 V: two vectors of bodies in flight.
void nbody(int64_t n, const T* pos, const T* mass, T* acc) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; i += 2 * V) {
    Reals p[3][2], a[3][2] = {};
    for (int c = 0; c < 3; c++)
      for (int k = 0; k < 2 * V; k++) p[c][k / V][k % V] = pos[3 * (i + k) + c];
    for (int64_t j = 0; j < n; j++)
      for (int h = 0; h < 2; h++) {
        const Reals x = pos[3 * j] - p[0][h], y = pos[3 * j + 1] - p[1][h], z = pos[3 * j + 2] - p[2][h];
        const Reals r2 = x * x + y * y + z * z + T(1e-3), w = mass[j] / (r2 * root(r2));
        a[0][h] += x * w;
        a[1][h] += y * w;
        a[2][h] += z * w;
      }
    for (int c = 0; c < 3; c++)
      for (int k = 0; k < 2 * V; k++) acc[3 * (i + k) + c] = a[c][k / V][k % V];
  }
}

// n is a multiple of 4 V: four vectors in flight hide the latency of the recurrence.
void mandelbrot(int64_t n, int limit, int32_t* out) {
  constexpr int U = 4;
  const T step = T(3) / n;
#pragma omp parallel for schedule(dynamic, 8)
  for (int64_t y = 0; y < n; y++)
    for (int64_t x = 0; x < n; x += U * V) {
      Reals cr[U], zr[U] = {}, zi[U] = {};
      Ints count[U] = {};
      const Reals ci = all(T(-1.5) + y * step);
      for (int u = 0; u < U; u++)
        for (int k = 0; k < V; k++) cr[u][k] = T(-2) + (x + u * V + k) * step;
      for (int it = 0; it < limit; it++) {
        Ints any = {};
        for (int u = 0; u < U; u++) {
          const Reals r2 = zr[u] * zr[u], i2 = zi[u] * zi[u];
          const Ints live = (Ints)(r2 + i2 <= T(4));  // once out, never back: NaN compares false
          count[u] -= live;
          any |= live;
          zi[u] = T(2) * zr[u] * zi[u] + ci;
          zr[u] = r2 - i2 + cr[u];
        }
        if (!is_any(any)) break;
      }
      for (int u = 0; u < U; u++)
        for (int k = 0; k < V; k++) out[y * n + x + u * V + k] = int32_t(count[u][k]);
    }
}

void gather(int64_t n, int64_t m, const T* __restrict x, const T* __restrict table, T* __restrict out) {
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < n; i++) {
    const T t = x[i] * T(m - 1);
    const int k = int(t);
    const T s = t - T(k);
    out[i] = table[k] * (1 - s) + table[k + 1] * s;
  }
}

void row_sum(int64_t rows, int64_t columns, const T* a, T* out) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < rows; i++) {
    T s = 0;
#pragma omp simd reduction(+ : s)
    for (int64_t j = 0; j < columns; j++) s += a[i * columns + j];
    out[i] = s;
  }
}

// Tiles of TILE rows by two vectors in registers, and the columns of b for them in one piece; n is a multiple of both
// and at most MOST.
void matmul(int64_t n, const T* __restrict a, const T* __restrict b, T* __restrict c) {
  constexpr int64_t MOST = 1024;
#pragma omp parallel for schedule(static)
  for (int64_t j = 0; j < n; j += 2 * V) {
    alignas(64) T strip[MOST][2 * V];
    for (int64_t k = 0; k < n; k++)
      for (int h = 0; h < 2; h++) store(strip[k] + h * V, load(b + k * n + j + h * V));
    for (int64_t i = 0; i < n; i += TILE) {
      Reals s[TILE][2] = {};
      for (int64_t k = 0; k < n; k++) {
        const Reals b0 = load(strip[k]), b1 = load(strip[k] + V);
#pragma GCC unroll 8
        for (int r = 0; r < TILE; r++) {
          s[r][0] += a[(i + r) * n + k] * b0;
          s[r][1] += a[(i + r) * n + k] * b1;
        }
      }
      for (int r = 0; r < TILE; r++)
        for (int h = 0; h < 2; h++) store(c + (i + r) * n + j + h * V, s[r][h]);
    }
  }
}

void elementary(int64_t n, const T* __restrict x, const T* __restrict y, T* __restrict out) {
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < n; i++) {
    if constexpr (is_single)
      out[i] = sinf(x[i]) * expf(-y[i]) + powf(x[i], y[i]) + sqrtf(x[i]);
    else
      out[i] = sin(x[i]) * exp(-y[i]) + pow(x[i], y[i]) + sqrt(x[i]);
  }
}

// n is a multiple of 2 WORDS.
void collatz(int64_t n, const int32_t* x, int32_t* out) {
#pragma omp parallel for schedule(dynamic, 64)
  for (int64_t b = 0; b < n / (2 * WORDS); b++) {
    Words v[2], steps[2] = {};
    for (int h = 0; h < 2; h++) v[h] = *reinterpret_cast<const Words*>(x + (2 * b + h) * WORDS);
    for (;;) {
      Words any = {};
      for (int h = 0; h < 2; h++) {
        const Words live = v[h] != 1, odd = (v[h] & 1) != 0;
        any |= live;
        steps[h] -= live;
        const Words next = odd ? 3 * v[h] + 1 : v[h] >> 1;
        v[h] = live ? next : v[h];
      }
      if (!is_any(any)) break;
    }
    for (int h = 0; h < 2; h++) *reinterpret_cast<Words*>(out + (2 * b + h) * WORDS) = steps[h];
  }
}

void many(int64_t n, const T* __restrict a, const T* __restrict b, const T* __restrict c, const T* __restrict d,
          const T* __restrict e, const T* __restrict f, const T* __restrict g, const T* __restrict h,
          T* __restrict out) {
  constexpr T p = 0.1, q = 0.2, r = 0.3, s = 0.4;
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < n; i++) out[i] = p * a[i] * b[i] + q * c[i] * d[i] + r * e[i] * f[i] + s * g[i] * h[i];
}

void mat33(int64_t n, const T* __restrict a, const T* __restrict b, T* __restrict out) {
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < n; i++) {
    const T *p = a + 9 * i, *q = b + 9 * i;
    T* o = out + 9 * i;
#define ENTRY(r, c) \
  o[3 * r + c] = p[3 * r] * q[c] + p[3 * r + 1] * q[3 + c] + p[3 * r + 2] * q[6 + c] + p[3 * c + r];
#define ROW(r) ENTRY(r, 0) ENTRY(r, 1) ENTRY(r, 2)
    ROW(0) ROW(1) ROW(2)
#undef ROW
#undef ENTRY
  }
}

// Of sizes.py: each so many times, on so many threads; `m` is the length of `y`. n is at least 2 V.
void scale_times(int64_t times, int threads, int64_t n, int64_t m, T a, const T* __restrict x, const T* __restrict y,
                 T* __restrict out) {
  for (int64_t t = 0; t < times; t++) {
#pragma omp parallel for simd schedule(static) num_threads(threads)
    for (int64_t i = 0; i < n; i++) out[i] = a * x[i] + y[i];
  }
}

void elementary_times(int64_t times, int threads, int64_t n, int64_t m, T a, const T* __restrict x,
                      const T* __restrict y, T* __restrict out) {
  for (int64_t t = 0; t < times; t++) {
#pragma omp parallel for simd schedule(static) num_threads(threads)
    for (int64_t i = 0; i < n; i++) {
      if constexpr (is_single)
        out[i] = sinf(a * x[i]) * expf(-y[i]) + powf(x[i], y[i]) + sqrtf(x[i]);
      else
        out[i] = sin(a * x[i]) * exp(-y[i]) + pow(x[i], y[i]) + sqrt(x[i]);
    }
  }
}

// The last two vectors are those at the end, which some before may have done already.
void attract_times(int64_t times, int threads, int64_t n, int64_t m, T a, const T* __restrict x,
                   const T* __restrict points, T* __restrict out) {
  for (int64_t t = 0; t < times; t++) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t b = 0; b < (n + 2 * V - 1) / (2 * V); b++) {
      const int64_t i = b * 2 * V < n - 2 * V ? b * 2 * V : n - 2 * V;
      Reals s[2] = {};
      const Reals p[2] = {load(x + i), load(x + i + V)};
      for (int64_t j = 0; j < m; j++)
        for (int h = 0; h < 2; h++) {
          const Reals d = points[j] - p[h], r2 = d * d + a;
          s[h] += d / (r2 * root(r2));
        }
      store(out + i, s[0]);
      store(out + i + V, s[1]);
    }
  }
}
}
