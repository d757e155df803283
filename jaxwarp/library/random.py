"""Random numbers.

Two generators, one interface: a state is a variable that every draw advances.

    rand_init(seed), rand_init(seed, i)    Warp's: 32 bits, a hash applied again and again
    rand_init(key), rand_init(key, i)      of a key of JAX: stream i, and how many numbers it has given

Stream i of a key is what the block cipher Threefry makes of (i, 0), (i, 1), ...: as no two blocks are equal, no two
streams of a key share a place. Warp's states are points of one cycle, where streams may run into each other.
"""

# Overloads of one name, and operators on what kernels call uint32.
# pyright: reportRedeclaration=false, reportOperatorIssue=false
# ruff: noqa: F811

from __future__ import annotations

from typing import TypeVar

import jaxwarp as wp

State = TypeVar("State", wp.uint32, wp.vec4ui)

# Keeps the logarithm of `randn` finite: a little less than the distance of the numbers of `randf`.
_LEAST = 5.96e-8
# Sets what kernels draw apart from what jax.random makes of the same key.
_KERNELS = 0x6A617877


@wp.func
def _hash(x: wp.uint32) -> wp.uint32:
    """One step of PCG and its output permutation, on 32 bits.

    Source: M. Jarzynski, M. Olano, Hash functions for GPU rendering, JCGT 9(3), 2020, `pcg`.
    """
    y = x * wp.uint32(747796405) + wp.uint32(2891336453)
    z = ((y >> ((y >> wp.uint32(28)) + wp.uint32(4))) ^ y) * wp.uint32(277803737)
    return (z >> wp.uint32(22)) ^ z


@wp.func
def _mix(x: wp.vec2ui, left: int) -> wp.vec2ui:
    """A round of Threefry."""
    total = x[0] + x[1]
    turned = (x[1] << wp.uint32(left)) | (x[1] >> wp.uint32(32 - left))
    return wp.vec2ui(total, turned ^ total)


@wp.func
def _threefry(key: wp.vec2ui, block: wp.vec2ui) -> wp.vec2ui:
    """Threefry-2x32 of 20 rounds, which jax.random uses too.

    Source: J. Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011.
    """
    third = key[0] ^ key[1] ^ wp.uint32(0x1BD11BDA)
    x = block + key
    x = _mix(_mix(_mix(_mix(x, 13), 15), 26), 6) + wp.vec2ui(key[1], third + wp.uint32(1))
    x = _mix(_mix(_mix(_mix(x, 17), 29), 16), 24) + wp.vec2ui(third, key[0] + wp.uint32(2))
    x = _mix(_mix(_mix(_mix(x, 13), 15), 26), 6) + wp.vec2ui(key[0], key[1] + wp.uint32(3))
    x = _mix(_mix(_mix(_mix(x, 17), 29), 16), 24) + wp.vec2ui(key[1], third + wp.uint32(4))
    return _mix(_mix(_mix(_mix(x, 13), 15), 26), 6) + wp.vec2ui(third, key[0] + wp.uint32(5))


@wp.func
def rand_init(seed: int) -> wp.uint32:
    return _hash(wp.uint32(seed))


@wp.func
def rand_init(seed: int, offset: int) -> wp.uint32:
    return _hash(wp.uint32(seed) + _hash(wp.uint32(offset)))


@wp.func
def rand_init(key: wp.vec2ui, offset: int = 0) -> wp.vec4ui:
    """The state of a random number generator, from a seed or a key of JAX. `offset` selects one of its streams."""
    own = _threefry(key, wp.vec2ui(wp.uint32(0), wp.uint32(_KERNELS)))
    return wp.vec4ui(own[0], own[1], wp.uint32(offset), wp.uint32(0))


@wp.func
def _draw(state: wp.ref[wp.uint32]) -> wp.uint32:
    state = _hash(state)
    return state  # noqa: RET504  (the caller's variable)


@wp.func
def _draw(state: wp.ref[wp.vec4ui]) -> wp.uint32:
    bits = _threefry(wp.vec2ui(state[0], state[1]), wp.vec2ui(state[2], state[3]))
    state[3] = state[3] + wp.uint32(1)
    return bits[0]


@wp.func
def randu(state: wp.ref[State]) -> wp.uint32:
    return _draw(state)


@wp.func
def randu(state: wp.ref[State], low: wp.uint32, high: wp.uint32) -> wp.uint32:
    """A random uint32, from 0 to the largest one. With `low` and `high`, from low to high - 1."""
    return _draw(state) % (high - low) + low


@wp.func
def randi(state: wp.ref[State]) -> int:
    return int(_draw(state))


@wp.func
def randi(state: wp.ref[State], low: int, high: int) -> int:
    """A random int of any value. With `low` and `high`, from low to high - 1."""
    return int(_draw(state) % wp.uint32(high - low) + wp.uint32(low))


@wp.func
def randf(state: wp.ref[State]) -> float:
    return float(_draw(state) >> wp.uint32(8)) * (1.0 / 16777216.0)


@wp.func
def randf(state: wp.ref[State], low: float, high: float) -> float:
    """A random float x with 0 <= x < 1, a multiple of 2**-24. With `low` and `high`, low + (high - low) * x."""
    return (high - low) * randf(state) + low


@wp.func
def randn(state: wp.ref[State]) -> float:
    """A random float of the normal distribution with mean 0 and variance 1, by the method of Box and Muller."""
    radius = wp.sqrt(-2.0 * wp.log(randf(state) + _LEAST))
    return radius * wp.cos(2.0 * wp.pi * randf(state))


# Distributions of integers


@wp.func
def _log_gamma(x: float) -> float:
    """The logarithm of gamma at x >= 1: Stirling's series at a larger number, and the recursion down from there.

    Source: S. Zhang, J. Jin, Computation of special functions, 1996, LGAMA.
    """
    steps = 0
    if x < 7.0 and x != 1.0 and x != 2.0:
        steps = int(7.0 - x)
    y = x + float(steps)
    z = (1.0 / y) * (1.0 / y)
    series = -1.39243221690590 * z + 1.796443723688307e-01
    series = series * z - 2.955065359477124e-02
    series = series * z + 6.410256410256410e-03
    series = series * z - 1.917526917526918e-03
    series = series * z + 8.417508417508418e-04
    series = series * z - 5.952380952380952e-04
    series = series * z + 7.936507936507937e-04
    series = series * z - 2.777777777777778e-03
    series = series * z + 8.333333333333333e-02
    result = series / y + 0.5 * 1.8378770664093453 + (y - 0.5) * wp.log(y) - y
    for _ in range(steps):
        y = y - 1.0
        result = result - wp.log(y)
    return 0.0 if x == 1.0 or x == 2.0 else result


@wp.func
def _poisson_by_products(state: wp.ref[State], lam: float) -> wp.uint32:
    """Return how many random numbers can be multiplied before the product falls to exp(-lam) or below."""
    limit = wp.exp(-lam)
    count = wp.uint32(0)
    product = randf(state)
    while product > limit:
        count = count + wp.uint32(1)
        product = product * randf(state)
    return count


@wp.func
def _poisson_by_rejection(state: wp.ref[State], lam: float) -> wp.uint32:
    """Source: W. Hörmann, The transformed rejection method for generating Poisson random variables, 1993, PTRS."""
    b = 0.931 + 2.53 * wp.sqrt(lam)
    a = -0.059 + 0.02483 * b
    scale = 1.1239 + 1.1328 / (b - 3.4)
    inside = 0.9277 - 3.6224 / (b - 2.0)
    k = 0.0
    accepted = False
    while not accepted:
        u = randf(state) - 0.5
        v = randf(state)
        s = 0.5 - wp.abs(u)
        k = wp.floor((2.0 * a / s + b) * u + lam + 0.43)
        if s >= 0.07 and v <= inside:
            accepted = True
        elif k >= 0.0 and (s >= 0.013 or v <= s):
            left = wp.log(v) + wp.log(scale) - wp.log(a / (s * s) + b)
            accepted = left <= -lam + k * wp.log(lam) - _log_gamma(k + 1.0)
    return wp.uint32(k)


@wp.func
def poisson(state: wp.ref[State], lam: float) -> wp.uint32:
    """A random number of the Poisson distribution with mean lam. If lam is 0 or less, it is 0."""
    if lam >= 10.0:
        return _poisson_by_rejection(state, lam)
    return _poisson_by_products(state, lam) if lam != 0.0 else wp.uint32(0)


@wp.func
def sample_cdf(state: wp.ref[State], cdf: wp.array[float]) -> int:
    """A random index, distributed as cumulative sums say: the first whose sum in `cdf` is at least a number from randf.
    """
    u = randf(state)
    first = 0
    last = len(cdf) - 1
    while first < last:
        middle = first + (last - first) // 2
        if cdf[middle] < u:
            first = middle + 1
        else:
            last = middle
    return first


# Points


@wp.func
def _angle(state: wp.ref[State]) -> float:
    return randf(state, 0.0, 2.0 * wp.pi)


@wp.func
def _on_sphere(polar: float, angle: float) -> wp.vec3:
    return wp.vec3(wp.cos(angle) * wp.sin(polar), wp.sin(angle) * wp.sin(polar), wp.cos(polar))


@wp.func
def sample_triangle(state: wp.ref[State]) -> wp.vec2:
    """A random point of a triangle, as its first two barycentric coordinates."""
    root = wp.sqrt(randf(state))
    return wp.vec2(1.0 - root, randf(state) * root)


@wp.func
def sample_unit_ring(state: wp.ref[State]) -> wp.vec2:
    """A random point of the circle of radius 1."""
    angle = _angle(state)
    return wp.vec2(wp.cos(angle), wp.sin(angle))


@wp.func
def sample_unit_disk(state: wp.ref[State]) -> wp.vec2:
    """A random point of the disk of radius 1."""
    radius = wp.sqrt(randf(state))
    return radius * sample_unit_ring(state)


@wp.func
def sample_unit_sphere_surface(state: wp.ref[State]) -> wp.vec3:
    """A random point of the surface of the unit sphere."""
    polar = wp.acos(1.0 - 2.0 * randf(state))
    return _on_sphere(polar, _angle(state))


@wp.func
def sample_unit_sphere(state: wp.ref[State]) -> wp.vec3:
    """A random point inside the unit sphere."""
    point = sample_unit_sphere_surface(state)
    return wp.pow(randf(state), 1.0 / 3.0) * point


@wp.func
def sample_unit_hemisphere_surface(state: wp.ref[State]) -> wp.vec3:
    """A random point of the surface of the unit sphere with z >= 0."""
    polar = wp.acos(1.0 - randf(state))
    return _on_sphere(polar, _angle(state))


@wp.func
def sample_unit_hemisphere(state: wp.ref[State]) -> wp.vec3:
    """A random point inside the unit sphere with z >= 0."""
    point = sample_unit_hemisphere_surface(state)
    return wp.pow(randf(state), 1.0 / 3.0) * point


@wp.func
def sample_unit_square(state: wp.ref[State]) -> wp.vec2:
    """A random point of the square of side 1 with its center at 0."""
    x = randf(state) - 0.5
    return wp.vec2(x, randf(state) - 0.5)


@wp.func
def sample_unit_cube(state: wp.ref[State]) -> wp.vec3:
    """A random point of the cube of side 1 with its center at 0."""
    x = randf(state) - 0.5
    y = randf(state) - 0.5
    return wp.vec3(x, y, randf(state) - 0.5)
