"""Sums of two, four and eight values with weights, of which the derivatives are computed from differences.

d/dx of a (1 - x) + b x is b - a, which has the accuracy of the values. Added up term by term, as it would be without a
rule, it would cancel: with weights of the other axes, values of 1e8 would have slopes of the wrong size.
"""

# ruff: noqa: ANN201, PLR0913

from __future__ import annotations

import jaxwarp as wp


@wp.func
def blend(a: float, b: float, x: float) -> float:
    return a * (1.0 - x) + b * x


@wp.func_grad(blend)
def adj_blend(a: float, b: float, x: float, adj_ret: float):
    wp.adjoint[a] += adj_ret * (1.0 - x)
    wp.adjoint[b] += adj_ret * x
    wp.adjoint[x] += adj_ret * (b - a)


@wp.func
def blend_four(a: float, b: float, c: float, d: float, x: float, y: float) -> float:
    """Blend a with b and c with d along x, and both results along y."""
    return blend(blend(a, b, x), blend(c, d, x), y)


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
    return blend(blend_four(a, b, c, d, x, y), blend_four(e, f, g, h, x, y), z)


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
