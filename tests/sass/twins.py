"""The kernels of `programs.py`, and some gradients, in CUDA C++ as one who knows GPUs would write them: the same
arithmetic, by hand.

Extents are arguments, as they are of code that is compiled once. Blocks have as many axes as the data. A gradient takes
the cotangent `ct` of the output and writes the cotangents of inputs, `df` for that of f.
"""

from __future__ import annotations

import re

from sass.programs import C19, CX, CY, W9, W19

_KERNEL = 'extern "C" __global__ void __launch_bounds__(256) '
TWINS: dict[str, str] = {}


def parameters_of(source: str) -> list[tuple[str, str]]:
    """The first kernel's parameters, in order: "*", "float" or "int", and the name."""
    listed = re.search(r"\(([^()]*)\) \{", source)
    assert listed is not None
    found = []
    for declared in listed[1].split(","):
        *kind, name = re.findall(r"\w+", declared)
        found.append(("*" if "*" in declared else kind[0], name))
    return found


def _twin(name: str, parameters: str, body: str, before: str = "") -> None:
    TWINS[name] = f"{before}\n{_KERNEL}{name}({parameters}) {{{body}}}\n"


_twin(
    "saxpy",
    "float a, const float *__restrict__ x, const float *__restrict__ y, float *__restrict__ out, int n",
    """
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a * x[i] + y[i];
""",
)
_twin(
    "vec3",
    "const float3 *__restrict__ x, const float3 *__restrict__ y, float3 *__restrict__ out, int n",
    """
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float3 v = x[i], w = y[i];
    float l2 = v.x * v.x + v.y * v.y + v.z * v.z;
    float s = l2 > 0.0f ? rsqrtf(l2) : 0.0f;
    v.x *= s; v.y *= s; v.z *= s;
    out[i] = make_float3(v.y * w.z - v.z * w.y, v.z * w.x - v.x * w.z, v.x * w.y - v.y * w.x);
""",
)
_twin(
    "vec4",
    "const float4 *__restrict__ x, const float4 *__restrict__ y, float4 *__restrict__ out, int n",
    """
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 p = x[i], q = y[i];
    out[i] = make_float4(p.x * 2.0f + q.x, p.y * 2.0f + q.y, p.z * 2.0f + q.z, p.w * 2.0f + q.w);
""",
)
_twin(
    "gather",
    "const float *__restrict__ table, const int *__restrict__ index, float *__restrict__ out, int n",
    """
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = table[index[i]];
""",
)


def _constants(name: str, values: tuple[float, ...]) -> str:
    listed = ", ".join(f"{v!r}f" for v in map(float, values))
    return f"    constexpr float {name}[] = {{{listed}}};\n"


# Where from, of a lattice that ends where it begins: one comparison for each neighbour.
_AROUND = """
    int {a}m = {a} == 0 ? n{a} - 1 : {a} - 1, {a}p = {a} == n{a} - 1 ? 0 : {a} + 1;"""


def _sources(axes: str, directions: tuple[tuple[int, ...], ...]) -> list[str]:
    """Where each population comes from: by plane, row and column."""
    found = []
    for q, shift in enumerate(directions):
        names = [f"{a}{'m' if s > 0 else 'p' if s < 0 else ''}" for a, s in zip(axes, shift, strict=True)]
        at = names[0]
        for a, name in zip(axes[1:], names[1:], strict=True):
            at = f"({at} * n{a} + {name})"
        found.append(f"{q} * n + {at}")
    return found


def _pulled(axes: str, directions: tuple[tuple[int, ...], ...]) -> str:
    """The loads of all populations."""
    return "\n".join(f"    v[{q}] = f[{at}];" for q, at in enumerate(_sources(axes, directions)))


_D2 = tuple(zip(CY, CX, strict=True))
_D3 = tuple((z, y, x) for x, y, z in C19)
_twin(
    "lbm2",
    "const float *__restrict__ f, float omega, float *__restrict__ g, int ny, int nx",
    f"""
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= nx) return;
{_constants("cx", CX)}{_constants("cy", CY)}{_constants("w", W9)}
    float v[9], rho = 0, ux = 0, uy = 0;
    int n = nx * ny, i = y * nx + x;{_AROUND.format(a="x")}{_AROUND.format(a="y")}
{_pulled("yx", _D2)}
#pragma unroll
    for (int q = 0; q < 9; ++q) {{ rho += v[q]; ux += cx[q] * v[q]; uy += cy[q] * v[q]; }}
    ux /= rho; uy /= rho;
    float rest = 1.0f - 1.5f * (ux * ux + uy * uy);
#pragma unroll
    for (int q = 0; q < 9; ++q) {{
        float cu = cx[q] * ux + cy[q] * uy;
        g[q * n + i] = v[q] + omega * (w[q] * rho * (rest + 3.0f * cu + 4.5f * cu * cu) - v[q]);
    }}
""",
)
_LBM3 = f"""
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, z = blockIdx.z;
    if (x >= nx) return;
{_constants("cx", tuple(c[0] for c in C19))}{_constants("cy", tuple(c[1] for c in C19))}
{_constants("cz", tuple(c[2] for c in C19))}{_constants("w", W19)}
    float v[19], rho = 0, ux = 0, uy = 0, uz = 0;
    INDEX n = (INDEX)nx * ny * nz; int i = (z * ny + y) * nx + x;
    {_AROUND.format(a="x")}{_AROUND.format(a="y")}{_AROUND.format(a="z")}
{_pulled("zyx", _D3)}
#pragma unroll
    for (int q = 0; q < 19; ++q) {{
        rho += v[q]; ux += cx[q] * v[q]; uy += cy[q] * v[q]; uz += cz[q] * v[q];
    }}
    ux /= rho; uy /= rho; uz /= rho;
    float rest = 1.0f - 1.5f * (ux * ux + uy * uy + uz * uz);
#pragma unroll
    for (int q = 0; q < 19; ++q) {{
        float cu = cx[q] * ux + cy[q] * uy + cz[q] * uz;
        g[q * n + i] = v[q] + omega * (w[q] * rho * (rest + 3.0f * cu + 4.5f * cu * cu) - v[q]);
    }}
"""
_LBM3_ARGUMENTS = "const float *__restrict__ f, float omega, float *__restrict__ g, int nz, int ny, int nx"
_twin("lbm3", _LBM3_ARGUMENTS, _LBM3.replace("INDEX", "int"))
_twin("lbm3_large", _LBM3_ARGUMENTS, _LBM3.replace("INDEX", "long long"))
_twin(
    "stencil",
    "const float *__restrict__ u, float c, float *__restrict__ out, int ni, int nj, int nk",
    """
    int k = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y, i = blockIdx.z;
    if (i < 1 || j < 1 || k < 1 || i >= ni - 1 || j >= nj - 1 || k >= nk - 1) return;
    int s = nj * nk, at = i * s + j * nk + k;
    float around = u[at - s] + u[at + s] + u[at - nk] + u[at + nk] + u[at - 1] + u[at + 1];
    out[at] = u[at] + c * (around - 6.0f * u[at]);
""",
)
_twin(
    "nbody",
    "const float3 *__restrict__ pos, const float *__restrict__ mass, float eps, float3 *__restrict__ acc, int n",
    """
    __shared__ float4 tile[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    float3 p = i < n ? pos[i] : make_float3(0, 0, 0);
    float ax = 0, ay = 0, az = 0;
    for (int base = 0; base < n; base += 256) {
        int j = base + threadIdx.x;
        float3 q = j < n ? pos[j] : make_float3(0, 0, 0);
        tile[threadIdx.x] = make_float4(q.x, q.y, q.z, j < n ? mass[j] : 0.0f);
        __syncthreads();
#pragma unroll 16
        for (int k = 0; k < 256; ++k) {
            float4 t = tile[k];
            float dx = t.x - p.x, dy = t.y - p.y, dz = t.z - p.z;
            float inv = rsqrtf(dx * dx + dy * dy + dz * dz + eps);
            float s = t.w * inv * inv * inv;
            ax += dx * s; ay += dy * s; az += dz * s;
        }
        __syncthreads();
    }
    if (i < n) acc[i] = make_float3(ax, ay, az);
""",
)
_twin(
    "matmul",
    "const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int m, int n, int k",
    """
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= m || j >= n) return;
    float s = 0;
    for (int q = 0; q < k; ++q) s += a[i * k + q] * b[q * n + j];
    c[i * n + j] = s;
""",
)
_BLOCK_SUM = """
    for (int d = 16; d; d >>= 1) sum += __shfl_down_sync(~0u, sum, d);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 8) {
        sum = part[threadIdx.x];
        for (int d = 4; d; d >>= 1) sum += __shfl_down_sync(0xff, sum, d);
        if (threadIdx.x == 0) STORE;
    }
"""
_twin(
    "rowsum",
    "const float *__restrict__ x, float *__restrict__ s, int rows, int cols",
    """
    __shared__ float part[8];
    const float4 *r = (const float4 *)(x + (long long)blockIdx.x * cols);
    float sum = 0;
    for (int j = threadIdx.x; j < cols / 4; j += 256) { float4 v = r[j]; sum += (v.x + v.y) + (v.z + v.w); }
"""
    + _BLOCK_SUM.replace("STORE", "s[blockIdx.x] = sum"),
)
_twin(
    "total",
    "const float4 *__restrict__ x, float *__restrict__ s, int n",
    """
    __shared__ float part[8];
    float sum = 0;
    for (int j = blockIdx.x * 256 + threadIdx.x; j < n / 4; j += 256 * gridDim.x) {
        float4 v = x[j];
        sum += (v.x + v.y) + (v.z + v.w);
    }
"""
    + _BLOCK_SUM.replace("STORE", "atomicAdd(s, sum)"),
)

# Gradients

_twin(
    "saxpy_gradient",
    "float a, const float *__restrict__ x, const float *__restrict__ ct, float *__restrict__ da, "
    "float *__restrict__ dx, int n",
    """
    __shared__ float part[8];
    float sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += 256 * gridDim.x) {
        float t = ct[i];
        dx[i] = a * t;
        sum += t * x[i];
    }
"""
    + _BLOCK_SUM.replace("STORE", "atomicAdd(da, sum)"),
)
_twin(
    "stencil_gradient",
    "const float *__restrict__ ct, float c, float *__restrict__ du, int ni, int nj, int nk",
    """
    int k = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y, i = blockIdx.z;
    if (j >= nj || k >= nk) return;
    int s = nj * nk, at = i * s + j * nk + k;
    auto inner = [&](int p, int q, int r) {
        bool is_inside = p > 0 && q > 0 && r > 0 && p < ni - 1 && q < nj - 1 && r < nk - 1;
        return is_inside ? ct[p * s + q * nk + r] : 0.0f;
    };
    float here = inner(i, j, k);
    float around = inner(i - 1, j, k) + inner(i + 1, j, k) + inner(i, j - 1, k) + inner(i, j + 1, k)
        + inner(i, j, k - 1) + inner(i, j, k + 1);
    du[at] = here + c * (around - 6.0f * here);
""",
)
_PUSHED = "\n".join(
    f"    df[{at}] = (1.0f - omega) * e[{q}] + drho + cx[{q}] * dux + cy[{q}] * duy;"
    for q, at in enumerate(_sources("yx", _D2))
)
# Each population is read by one cell, so that its cotangent is stored once.
_twin(
    "lbm2_gradient",
    "const float *__restrict__ f, float omega, const float *__restrict__ ct, float *__restrict__ df, int ny, int nx",
    f"""
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= nx) return;
{_constants("cx", CX)}{_constants("cy", CY)}{_constants("w", W9)}
    float v[9], e[9], rho = 0, ux = 0, uy = 0;
    int n = nx * ny, i = y * nx + x;{_AROUND.format(a="x")}{_AROUND.format(a="y")}
{_pulled("yx", _D2)}
#pragma unroll
    for (int q = 0; q < 9; ++q) {{
        e[q] = ct[q * n + i];
        rho += v[q]; ux += cx[q] * v[q]; uy += cy[q] * v[q];
    }}
    ux /= rho; uy /= rho;
    float rest = 1.0f - 1.5f * (ux * ux + uy * uy), drho = 0, dux = 0, duy = 0;
#pragma unroll
    for (int q = 0; q < 9; ++q) {{
        float cu = cx[q] * ux + cy[q] * uy, t = omega * w[q] * e[q], d = t * (3.0f + 9.0f * cu);
        drho += t * (rest + 3.0f * cu + 4.5f * cu * cu);
        dux += cx[q] * d - 3.0f * t * ux;
        duy += cy[q] * d - 3.0f * t * uy;
    }}
    drho -= dux * ux + duy * uy;
{_PUSHED}
""",
)
