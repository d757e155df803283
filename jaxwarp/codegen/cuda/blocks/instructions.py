"""C++ helpers of products of matrices: tensor cores, accesses of 16 bytes, and copies that do not wait.

Arrays in shared memory are passed whole, with the place of an element, never as a pointer: on the host they are objects
that see races. What is an instruction of PTX here is there a function of the host's shim by a similar name. GPUs that
lack an instruction (before compute capability 8.0) do the same with other ones.
"""

from __future__ import annotations

INSTRUCTIONS: dict[str, str] = {}
"""What `prelude.py` offers of it, by name."""


def helper(name: str, source: str) -> None:
    """Add a helper."""
    INSTRUCTIONS[name] = source


# Four matrices of 8 x 8 elements of 2 bytes, whose rows begin where lanes 0 to 7, 8 to 15, ... say. A lane gets two
# elements of row lane / 4, or of that column.
helper(
    "load_matrices",
    """
template <bool turned, class M> INLINE void load_matrices(unsigned int (&to)[4], M &memory, int at) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 750
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int n = 0; n < 4; ++n) {
        unsigned int both[2];
        #pragma unroll
        for (int e = 0; e < 2; ++e) {
            const int row = __shfl_sync(0xffffffffu, at, n * 8 + (turned ? lane % 4 * 2 + e : lane / 4));
            both[e] = memory[row + (turned ? lane / 4 : lane % 4 * 2 + e)];
        }
        to[n] = both[0] | both[1] << 16;
    }
#elif defined(__CUDACC_RTC__)
    const unsigned int address = (unsigned int)__cvta_generic_to_shared(&memory[at]);
    if constexpr (turned)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address) : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address) : "memory");
#else
    ldmatrix_x4(to, memory, at, turned);
#endif
}
""",
)
# A product of 16 x 16 by 16 x 8 elements of half precision. Each product is exact, the order of sums is not said.
helper(
    "float16_values",
    """
struct float16_values {
    static INLINE void multiply(float *c, const unsigned int *a, const unsigned int *b) {
#ifdef __CUDACC_RTC__
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
        mma_m16n8k16<false>(c, a, b);
#endif
    }
    static INLINE float value(unsigned int bits) { return float16_to_float((unsigned short)bits); }
};
""",
)
helper(
    "bfloat16_values",
    """
struct bfloat16_values {
    static INLINE void multiply(float *c, const unsigned int *a, const unsigned int *b) {
#ifdef __CUDACC_RTC__
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
        mma_m16n8k16<true>(c, a, b);
#endif
    }
    static INLINE float value(unsigned int bits) { return bfloat16_to_float((unsigned short)bits); }
};
""",
)
helper(
    "add_fragments",
    """
template <class V> INLINE void add_fragments(float *c, const unsigned int *a, const unsigned int *b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int e = 0; e < 4; ++e) {
        #pragma unroll
        for (int k = 0; k < 16; ++k) {
            const unsigned int left = __shfl_sync(0xffffffffu, a[e / 2 + k / 8 * 2], lane / 4 * 4 + k % 8 / 2);
            const unsigned int right = __shfl_sync(0xffffffffu, b[k / 8], (lane % 4 * 2 + e % 2) * 4 + k % 8 / 2);
            c[e] += V::value(left >> k % 2 * 16 & 0xffffu) * V::value(right >> k % 2 * 16 & 0xffffu);
        }
    }
#else
    V::multiply(c, a, b);
#endif
}
""",
)
helper(
    "inside_or_last",
    "template <bool inside> INLINE int inside_or_last(int i, int most) { return inside ? i : min_of(i, most); }",
)
# A product whose sums are `down` x `across` fragments in each warp, the first of them at `row` and `column`. Instead of
# rows and columns beyond the shape some that are there are read: what comes of them is never used.
helper(
    "add_half_product",
    """
template <class V, int down, int across, bool inside, int rows, int columns, int depth,
          int left_stride, bool left_turned, int right_stride, bool right_turned, class L, class R>
INLINE void add_half_product(float *sums, L &left, int left_at, R &right, int right_at, int row, int column) {
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int k = 0; k < depth; k += 16) {
        unsigned int a[down][4], b[across + 1][2];
        #pragma unroll
        for (int n = 0; n < down; ++n) {
            if constexpr (left_turned) {
                const int at = inside_or_last<inside>(row + n * 16 + lane / 8 % 2 * 8, (rows - 1) / 8 * 8);
                load_matrices<true>(a[n], left, left_at + (k + lane % 8 + lane / 16 * 8) * left_stride + at);
            } else {
                const int at = inside_or_last<inside>(row + n * 16 + lane % 16, rows - 1);
                load_matrices<false>(a[n], left, left_at + at * left_stride + k + lane / 16 * 8);
            }
        }
        #pragma unroll
        for (int n = 0; n < across; n += 2) {
            unsigned int both[4];
            if constexpr (right_turned) {
                const int at = inside_or_last<inside>(column + n * 8 + lane % 8 + lane / 16 * 8, columns - 1);
                load_matrices<false>(both, right, right_at + at * right_stride + k + lane / 8 % 2 * 8);
            } else {
                const int at = inside_or_last<inside>(column + n * 8 + lane / 16 * 8, (columns - 1) / 8 * 8);
                load_matrices<true>(both, right, right_at + (k + lane % 16) * right_stride + at);
            }
            b[n][0] = both[0], b[n][1] = both[1], b[n + 1][0] = both[2], b[n + 1][1] = both[3];
        }
        #pragma unroll
        for (int m = 0; m < down; ++m)
            #pragma unroll
            for (int n = 0; n < across; ++n) add_fragments<V>(sums + (m * across + n) * 4, a[m], b[n]);
    }
}
""",
)
# The same of float64, by 8 x 4 and 4 x 8 elements.
helper(
    "add_double_fragments",
    """
INLINE void add_double_fragments(double *c, double a, double b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int e = 0; e < 2; ++e)
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            const double left = __shfl_sync(0xffffffffu, a, lane / 4 * 4 + k);
            c[e] = fma(left, __shfl_sync(0xffffffffu, b, (lane % 4 * 2 + e) * 4 + k), c[e]);
        }
#elif defined(__CUDACC_RTC__)
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(c[0]), "+d"(c[1]) : "d"(a), "d"(b));
#else
    mma_m8n8k4(c, a, b);
#endif
}
""",
)
helper(
    "add_double_product",
    """
template <int down, int across, bool inside, int rows, int columns, int depth,
          int left_stride, bool left_turned, int right_stride, bool right_turned, class L, class R>
INLINE void add_double_product(double *sums, L &left, int left_at, R &right, int right_at, int row, int column) {
    const int inner = threadIdx.x % 4, outer = threadIdx.x % 32 / 4;
    #pragma unroll 4
    for (int k = 0; k < depth; k += 4) {
        double a[down], b[across];
        #pragma unroll
        for (int n = 0; n < down; ++n) {
            const int at = inside_or_last<inside>(row + n * 8 + outer, rows - 1);
            a[n] = left[left_at + (left_turned ? (k + inner) * left_stride + at : at * left_stride + k + inner)];
        }
        #pragma unroll
        for (int n = 0; n < across; ++n) {
            const int at = inside_or_last<inside>(column + n * 8 + outer, columns - 1);
            b[n] = right[right_at + (right_turned ? at * right_stride + k + inner : (k + inner) * right_stride + at)];
        }
        #pragma unroll
        for (int m = 0; m < down; ++m)
            #pragma unroll
            for (int n = 0; n < across; ++n) add_double_fragments(sums + (m * across + n) * 2, a[m], b[n]);
    }
}
""",
)
# Elements that follow each other, 16 bytes at a time if they begin at a multiple of that.
helper("words_of", "template <class T> struct alignas(16) words_of { T x[16 / sizeof(T)]; };")
helper(
    "load_row",
    """
template <int count, bool is_aligned, class T, class M> INLINE void load_row(T *to, M &memory, int at) {
#ifdef __CUDACC_RTC__
    constexpr int each = 16 / sizeof(T);
    if constexpr (is_aligned && count % each == 0) {
        #pragma unroll
        for (int n = 0; n < count; n += each) {
            const words_of<T> found = *(const words_of<T> *)&memory[at + n];
            #pragma unroll
            for (int m = 0; m < each; ++m) to[n + m] = found.x[m];
        }
        return;
    }
#endif
    #pragma unroll
    for (int n = 0; n < count; ++n) to[n] = memory[at + n];
}
""",
)
helper(
    "plus_product",
    """
template <bool fused> INLINE float plus_product(float a, float b, float c) {
    return fused ? fmaf(a, b, c) : c + a * b;
}
template <bool fused> INLINE double plus_product(double a, double b, double c) {
    return fused ? fma(a, b, c) : c + a * b;
}
""",
)
helper(
    "is_any_nan",
    """
template <int count, class T> INLINE bool is_any_nan(const T *values) {
    bool found = false;
    #pragma unroll
    for (int n = 0; n < count; ++n) found |= values[n] != values[n];
    return found;
}
""",
)
# A product whose sums are a patch in each thread: `tall` rows, `down` apart, and `wide` columns, `near` of them side by
# side.
helper(
    "add_patch_product",
    """
template <bool fused, int tall, int wide, int down, int across, int near, int step, int rows, int columns, int depth,
          int left_stride, bool left_turned, bool left_aligned, int right_stride, bool right_turned, bool right_aligned,
          class T, class L, class R>
INLINE void add_patch_product(T *sums, L &left, int left_at, R &right, int right_at, int row, int column) {
    #pragma unroll 1
    for (int k = 0; k < depth; k += step) {
        T a[tall][step], b[right_turned ? step : 1][wide];
        #pragma unroll
        for (int n = 0; n < tall; ++n) {
            int at = row + n * down;
            if constexpr (tall * down > rows) at = min_of(at, rows - 1);
            if constexpr (left_turned) {
                #pragma unroll
                for (int s = 0; s < step; ++s) a[n][s] = left[left_at + (k + s) * left_stride + at];
            } else load_row<step, left_aligned>(a[n], left, left_at + at * left_stride + k);
        }
        if constexpr (right_turned) {
            #pragma unroll
            for (int n = 0; n < wide; ++n) {
                int at = column + n % near + n / near * (near * across);
                if constexpr (wide * across > columns) at = min_of(at, columns - 1);
                T found[step];
                load_row<step, right_aligned>(found, right, right_at + at * right_stride + k);
                #pragma unroll
                for (int s = 0; s < step; ++s) b[s][n] = found[s];
            }
        }
        #pragma unroll
        for (int s = 0; s < step; ++s) {
            if constexpr (!right_turned) {
                #pragma unroll
                for (int n = 0; n < wide; n += near) {
                    int at = column + n * across;
                    if constexpr (wide * across > columns) at = min_of(at, (columns - 1) / near * near);
                    load_row<near, right_aligned>(b[0] + n, right, right_at + (k + s) * right_stride + at);
                }
            }
            #pragma unroll
            for (int m = 0; m < tall; ++m)
                #pragma unroll
                for (int n = 0; n < wide; ++n) {
                    T &sum = sums[m * wide + n];
                    sum = plus_product<fused>(a[m][s], b[right_turned ? s : 0][n], sum);
                }
        }
    }
}
""",
)
# Copies from an array to shared memory that a thread does not wait for; those up to a `commit_copies` are a group.
helper(
    "copy_async",
    """
template <int bytes, class M, class T> INLINE void copy_async(M &memory, int at, const T *from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    #pragma unroll
    for (int n = 0; n < bytes / (int)sizeof(T); ++n) memory[at + n] = from[n];
#elif defined(__CUDACC_RTC__)
    const unsigned int address = (unsigned int)__cvta_generic_to_shared(&memory[at]);
    if constexpr (bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(address), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" :: "r"(address), "l"(from), "n"(bytes) : "memory");
#else
    cp_async<bytes>(memory, at, from);
#endif
}
""",
)
helper(
    "commit_copies",
    """
INLINE void commit_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#elif defined(__CUDACC_RTC__)
    asm volatile("cp.async.commit_group;" ::: "memory");
#else
    cp_async_commit_group();
#endif
}
""",
)
# Waits for all groups but the last few.
helper(
    "wait_for_copies",
    """
template <int groups> INLINE void wait_for_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#elif defined(__CUDACC_RTC__)
    asm volatile("cp.async.wait_group %0;" :: "n"(groups) : "memory");
#else
    cp_async_wait_group(groups);
#endif
}
""",
)
helper(
    "are_aligned",
    """
template <int bytes> INLINE bool are_aligned(const void *first, const void *second) {
    return (((unsigned long long)first | (unsigned long long)second) & (bytes - 1)) == 0;
}
""",
)
