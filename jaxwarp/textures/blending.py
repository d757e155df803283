"""Sums of two, four and eight values with weights, of which the derivatives are computed from differences.

d/dx of a (1 - x) + b x is b - a, which has the accuracy of the values. Added up term by term, as it would be without a
rule, it would cancel: with weights of the other axes, values of 1e8 would have slopes of the wrong size.

The code of a function that has a rule calls none that has one: its rule is all that a derivative reads, and each rule
inside would be lowered for nothing.
"""

# ruff: noqa: ANN201, F811, PLR0913
# pyright: reportRedeclaration=false, reportArgumentType=false, reportReturnType=false, reportCallIssue=false

from __future__ import annotations

from typing import Any

import jaxwarp as wp


@wp.func
def blended(a: float, b: float, x: float) -> float:
    """Return what `blend` does, without its rule."""
    return a * (1.0 - x) + b * x


@wp.func
def blended_four(a: float, b: float, c: float, d: float, x: float, y: float) -> float:
    return blended(blended(a, b, x), blended(c, d, x), y)


@wp.func
def blend(a: float, b: float, x: float) -> float:
    return blended(a, b, x)


@wp.func_grad(blend)
def adj_blend(a: float, b: float, x: float, adj_ret: float):
    wp.adjoint[a] += adj_ret * (1.0 - x)
    wp.adjoint[b] += adj_ret * x
    wp.adjoint[x] += adj_ret * (b - a)


@wp.func
def blend_four(a: float, b: float, c: float, d: float, x: float, y: float) -> float:
    """Blend a with b and c with d along x, and both results along y."""
    return blended_four(a, b, c, d, x, y)


@wp.func_grad(blend_four)
def adj_blend_four(a: float, b: float, c: float, d: float, x: float, y: float, adj_ret: float):
    wp.adjoint[a] += adj_ret * (1.0 - x) * (1.0 - y)
    wp.adjoint[b] += adj_ret * x * (1.0 - y)
    wp.adjoint[c] += adj_ret * (1.0 - x) * y
    wp.adjoint[d] += adj_ret * x * y
    wp.adjoint[x] += adj_ret * blend(b - a, d - c, y)
    wp.adjoint[y] += adj_ret * blend(c - a, d - b, x)


@wp.func
def blend_eight(
    a: float, b: float, c: float, d: float, e: float, f: float, g: float, h: float, x: float, y: float, z: float
) -> float:
    """Blend a to d and e to h along x and y, and both results along z."""
    return blended(blended_four(a, b, c, d, x, y), blended_four(e, f, g, h, x, y), z)


@wp.func_grad(blend_eight)
def adj_blend_eight(
    a: float,
    b: float,
    c: float,
    d: float,
    e: float,
    f: float,
    g: float,
    h: float,
    x: float,
    y: float,
    z: float,
    adj_ret: float,
):
    near = adj_ret * (1.0 - z)
    far = adj_ret * z
    wp.adjoint[a] += near * (1.0 - x) * (1.0 - y)
    wp.adjoint[b] += near * x * (1.0 - y)
    wp.adjoint[c] += near * (1.0 - x) * y
    wp.adjoint[d] += near * x * y
    wp.adjoint[e] += far * (1.0 - x) * (1.0 - y)
    wp.adjoint[f] += far * x * (1.0 - y)
    wp.adjoint[g] += far * (1.0 - x) * y
    wp.adjoint[h] += far * x * y
    wp.adjoint[x] += adj_ret * blend_four(b - a, d - c, f - e, h - g, y, z)
    wp.adjoint[y] += adj_ret * blend_four(c - a, d - b, g - e, h - f, x, z)
    wp.adjoint[z] += adj_ret * blend_four(e - a, f - b, g - c, h - d, x, y)


# The same of each component of a vector


@wp.func
def mixed(a: float, b: float, x: float) -> float:
    return blend(a, b, x)


@wp.func
def mixed(a: Any, b: Any, x: float):
    value = a
    for i in range(len(a)):
        value[i] = blend(a[i], b[i], x)
    return value


@wp.func
def mixed_four(a: float, b: float, c: float, d: float, x: float, y: float) -> float:
    return blend_four(a, b, c, d, x, y)


@wp.func
def mixed_four(a: Any, b: Any, c: Any, d: Any, x: float, y: float):
    value = a
    for i in range(len(a)):
        value[i] = blend_four(a[i], b[i], c[i], d[i], x, y)
    return value


@wp.func
def mixed_eight(
    a: float, b: float, c: float, d: float, e: float, f: float, g: float, h: float, x: float, y: float, z: float
) -> float:
    return blend_eight(a, b, c, d, e, f, g, h, x, y, z)


@wp.func
def mixed_eight(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any, x: float, y: float, z: float):
    value = a
    for i in range(len(a)):
        value[i] = blend_eight(a[i], b[i], c[i], d[i], e[i], f[i], g[i], h[i], x, y, z)
    return value
