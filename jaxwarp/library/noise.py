"""Perlin noise: smooth random functions, of 1 to 4 coordinates.

Each point of the grid of whole numbers has a random direction, made of a hash. In a cell, the noise is what the linear
functions with these directions, 0 at their corners, are blended to: along x first, then along y, z and t.

    v(x) = v0 + (v1 - v0) S(x),    S(x) = x**3 (6 x**2 - 15 x + 10)

Values go along with their gradients, which `curlnoise` is made of. Where only values are used, gradients are not
computed; derivatives of both are those of this code. S has two derivatives that are 0 at the corners.

Source: K. Perlin, Improving noise, SIGGRAPH 2002. Hashes are those of NVIDIA Warp, so that values are.
"""

# Overloads of one name, and operators on what kernels call uint32.
# pyright: reportRedeclaration=false, reportOperatorIssue=false, reportArgumentType=false
# ruff: noqa: B008, F811

from __future__ import annotations

from typing import Any

import jaxwarp as wp


@wp.func
def _corner(seed: wp.uint32, d: wp.vec2):
    """The linear function of a corner at a distance from it, and its gradient."""
    state = seed
    g = wp.normalize(wp.sample_unit_square(state))
    return wp.dot(d, g), g


@wp.func
def _corner(seed: wp.uint32, d: wp.vec3):
    state = seed
    g = wp.normalize(wp.sample_unit_cube(state))
    return wp.dot(d, g), g


@wp.func
def _corner(seed: wp.uint32, d: wp.vec4):
    state = seed
    x = wp.randf(state) - 0.5
    y = wp.randf(state) - 0.5
    z = wp.randf(state) - 0.5
    g = wp.normalize(wp.vec4(x, y, z, wp.randf(state) - 0.5))
    return wp.dot(d, g), g


@wp.func
def _blend(t: float, axis: Any, v0: float, g0: Any, v1: float, g1: Any):
    """Between two functions along an axis, given as a unit vector; values and gradients."""
    s = t * t * t * (t * (t * 6.0 - 15.0) + 10.0)
    ds = 30.0 * t * t * (t * (t - 2.0) + 1.0)
    return (v1 - v0) * s + v0, (g1 - g0) * s + ((v1 - v0) * ds) * axis + g0


@wp.func
def _edge(x: Any, rest: wp.uint32, d: Any, ex: Any):
    """Along x; `x` are the hashes of the two corners' first coordinates, `rest` that of the others."""
    v0, g0 = _corner(x[0] ^ rest, d)
    v1, g1 = _corner(x[1] ^ rest, d - ex)
    return _blend(d[0], ex, v0, g0, v1, g1)


@wp.func
def _face(x: Any, y: Any, rest: wp.uint32, d: Any, ex: Any, ey: Any):
    v0, g0 = _edge(x, y[0] ^ rest, d, ex)
    v1, g1 = _edge(x, y[1] ^ rest, d - ey, ex)
    return _blend(d[1], ey, v0, g0, v1, g1)


@wp.func
def _cell(x: Any, y: Any, z: Any, rest: wp.uint32, d: Any, ex: Any, ey: Any, ez: Any):
    v0, g0 = _face(x, y, z[0] ^ rest, d, ex, ey)
    v1, g1 = _face(x, y, z[1] ^ rest, d - ez, ex, ey)
    return _blend(d[2], ez, v0, g0, v1, g1)


# The hash of a coordinate is its product with a prime; the last one has the state added.
_PRIMES = (73856093, 19349663, 53471161, 10000019)


@wp.func
def _hashes(least: int, most: int, prime: int, state: wp.uint32) -> wp.vec2ui:
    p = wp.uint32(prime)
    return wp.vec2ui(wp.uint32(least) * p + state, wp.uint32(most) * p + state)


@wp.func
def _noise(state: wp.uint32, d: float, x: wp.vec2i):
    """The noise and its gradient; `d` is the place in the cell, `x` are the coordinates of its sides."""
    seeds = _hashes(x[0], x[1], _PRIMES[0], state)
    first, second = seeds[0], seeds[1]
    g0 = wp.randf(first, -1.0, 1.0)
    g1 = wp.randf(second, -1.0, 1.0)
    return _blend(d, 1.0, d * g0, g0, (d - 1.0) * g1, g1)


@wp.func
def _noise(state: wp.uint32, d: wp.vec2, x: wp.vec2i, y: wp.vec2i):
    no = wp.uint32(0)
    ex, ey = wp.vec2(1.0, 0.0), wp.vec2(0.0, 1.0)
    hx = _hashes(x[0], x[1], _PRIMES[0], no)
    hy = _hashes(y[0], y[1], _PRIMES[1], state)
    return _face(hx, hy, no, d, ex, ey)


@wp.func
def _noise(state: wp.uint32, d: wp.vec3, x: wp.vec2i, y: wp.vec2i, z: wp.vec2i):
    no = wp.uint32(0)
    ex, ey, ez = wp.vec3(1.0, 0.0, 0.0), wp.vec3(0.0, 1.0, 0.0), wp.vec3(0.0, 0.0, 1.0)
    hx = _hashes(x[0], x[1], _PRIMES[0], no)
    hy = _hashes(y[0], y[1], _PRIMES[1], no)
    hz = _hashes(z[0], z[1], _PRIMES[2], state)
    return _cell(hx, hy, hz, no, d, ex, ey, ez)


@wp.func
def _noise(state: wp.uint32, d: wp.vec4, x: wp.vec2i, y: wp.vec2i, z: wp.vec2i, t: wp.vec2i):
    no = wp.uint32(0)
    ex, ey = wp.vec4(1.0, 0.0, 0.0, 0.0), wp.vec4(0.0, 1.0, 0.0, 0.0)
    ez, et = wp.vec4(0.0, 0.0, 1.0, 0.0), wp.vec4(0.0, 0.0, 0.0, 1.0)
    hx = _hashes(x[0], x[1], _PRIMES[0], no)
    hy = _hashes(y[0], y[1], _PRIMES[1], no)
    hz = _hashes(z[0], z[1], _PRIMES[2], no)
    ht = _hashes(t[0], t[1], _PRIMES[3], state)
    v0, g0 = _cell(hx, hy, hz, ht[0], d, ex, ey, ez)
    v1, g1 = _cell(hx, hy, hz, ht[1], d - et, ex, ey, ez)
    return _blend(d[3], et, v0, g0, v1, g1)


@wp.func
def _sides(x: float) -> wp.vec2i:
    """The whole numbers around x."""
    least = int(wp.floor(x))
    return wp.vec2i(least, least + 1)


@wp.func
def _sides(x: float, period: int) -> wp.vec2i:
    least = int(wp.floor(x)) % period
    return wp.vec2i(least, (least + 1) % period)


@wp.func
def _inside(x: float) -> float:
    return x - wp.floor(x)


@wp.func
def _inside(x: wp.vec2) -> wp.vec2:
    return wp.vec2(_inside(x[0]), _inside(x[1]))


@wp.func
def _inside(x: wp.vec3) -> wp.vec3:
    return wp.vec3(_inside(x[0]), _inside(x[1]), _inside(x[2]))


@wp.func
def _inside(x: wp.vec4) -> wp.vec4:
    return wp.vec4(_inside(x[0]), _inside(x[1]), _inside(x[2]), _inside(x[3]))


@wp.func
def _open(state: wp.uint32, p: wp.vec2):
    return _noise(state, _inside(p), _sides(p[0]), _sides(p[1]))


@wp.func
def _open(state: wp.uint32, p: wp.vec3):
    return _noise(state, _inside(p), _sides(p[0]), _sides(p[1]), _sides(p[2]))


@wp.func
def _open(state: wp.uint32, p: wp.vec4):
    return _noise(state, _inside(p), _sides(p[0]), _sides(p[1]), _sides(p[2]), _sides(p[3]))


@wp.func
def noise(state: wp.uint32, x: float) -> float:
    return _noise(state, _inside(x), _sides(x))[0]


@wp.func
def noise(state: wp.uint32, xy: wp.vec2) -> float:
    return _open(state, xy)[0]


@wp.func
def noise(state: wp.uint32, xyz: wp.vec3) -> float:
    return _open(state, xyz)[0]


@wp.func
def noise(state: wp.uint32, xyzt: wp.vec4) -> float:
    """Perlin noise: a smooth random function of a point, 0 at integer coordinates. The state chooses the function, and
    does not advance."""
    return _open(state, xyzt)[0]


@wp.func
def pnoise(state: wp.uint32, x: float, px: int) -> float:
    return _noise(state, _inside(x), _sides(x, px))[0]


@wp.func
def pnoise(state: wp.uint32, xy: wp.vec2, px: int, py: int) -> float:
    return _noise(state, _inside(xy), _sides(xy[0], px), _sides(xy[1], py))[0]


@wp.func
def pnoise(state: wp.uint32, xyz: wp.vec3, px: int, py: int, pz: int) -> float:
    return _noise(state, _inside(xyz), _sides(xyz[0], px), _sides(xyz[1], py), _sides(xyz[2], pz))[0]


@wp.func
def pnoise(state: wp.uint32, xyzt: wp.vec4, px: int, py: int, pz: int, pt: int) -> float:
    """Perlin noise with a period along each axis, given in units. It is periodic where coordinates are not negative, as
    in Warp."""
    x, y, z, t = _sides(xyzt[0], px), _sides(xyzt[1], py), _sides(xyzt[2], pz), _sides(xyzt[3], pt)
    return _noise(state, _inside(xyzt), x, y, z, t)[0]


@wp.func
def _rolled(octaves: wp.uint32) -> int:
    """A number that the frontend does not know, so that the loop over octaves stays one."""
    return int(wp.max(octaves, wp.uint32(0)))


@wp.func
def curlnoise(
    state: wp.uint32, xy: wp.vec2, octaves: wp.uint32 = wp.uint32(1), lacunarity: float = 2.0, gain: float = 0.5
) -> wp.vec2:
    total = wp.vec2(0.0, 0.0)
    frequency, amplitude = 1.0, 1.0
    for _ in range(_rolled(octaves)):
        _v, g = _open(state, frequency * xy)
        total = total + amplitude * g
        amplitude = amplitude * gain
        frequency = frequency * lacunarity
    return wp.vec2(-total[1], total[0])


@wp.func
def _second(state: wp.uint32) -> wp.uint32:
    return wp.rand_init(int(state), 10019689)


@wp.func
def _third(state: wp.uint32) -> wp.uint32:
    return wp.rand_init(int(state), 13112221)


@wp.func
def _curl(a: Any, b: Any, c: Any) -> wp.vec3:
    """The curl of a vector field, of its components' gradients."""
    return wp.vec3(c[1] - b[2], a[2] - c[0], b[0] - a[1])


@wp.func
def _curlnoise(state: wp.uint32, p: Any, octaves: wp.uint32, lacunarity: float, gain: float) -> wp.vec3:
    """Three fields of noise; each octave goes on with the states of the one before."""
    total = wp.vec3(0.0, 0.0, 0.0)
    frequency, amplitude = 1.0, 1.0
    for _ in range(_rolled(octaves)):
        second = _second(state)
        third = _third(second)
        _v, a = _open(state, frequency * p)
        _v, b = _open(second, frequency * p)
        _v, c = _open(third, frequency * p)
        total = total + amplitude * _curl(a, b, c)
        state = third
        amplitude = amplitude * gain
        frequency = frequency * lacunarity
    return total


@wp.func
def _rolled(octaves: wp.uint32) -> int:
    """A number that the frontend does not know, so that the loop over octaves stays one."""
    return int(wp.max(octaves, wp.uint32(0)))


@wp.func
def curlnoise(
    state: wp.uint32, xyz: wp.vec3, octaves: wp.uint32 = wp.uint32(1), lacunarity: float = 2.0, gain: float = 0.5
) -> wp.vec3:
    return _curlnoise(state, xyz, octaves, lacunarity, gain)


@wp.func
def _rolled(octaves: wp.uint32) -> int:
    """A number that the frontend does not know, so that the loop over octaves stays one."""
    return int(wp.max(octaves, wp.uint32(0)))


@wp.func
def curlnoise(
    state: wp.uint32, xyzt: wp.vec4, octaves: wp.uint32 = wp.uint32(1), lacunarity: float = 2.0, gain: float = 0.5
) -> wp.vec3:
    """The curl of Perlin noise: a vector field without divergence.

    A fourth coordinate is time. `octaves` layers of noise are added. Each has `lacunarity` times the frequency and
    `gain` times the amplitude of the one before.
    """
    return _curlnoise(state, xyzt, octaves, lacunarity, gain)
