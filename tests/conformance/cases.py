"""The cases. The kernels are in the language that jaxwarp shares with Warp: `run.py` loads this file once for each."""

# ruff: noqa: UP018, RUF046, RUF059  (`int(0)` is how Warp is told of a variable; results that are not used)

import itertools

import numpy as np

import jaxwarp as wp

CASES = {}


class Case:
    """A kernel, its arguments in order, and the gradient of sum(w * arguments[of]) by arguments[by], w = 1, 2, 3, ...

    Attributes:
        expected: of the arguments by name, and w, which has the shape of arguments[of].
        outputs: arguments that start as zeros and are results; in_outs: those that are results too.
        dims: launch extents; None: the shape of the first array.
    """

    def __init__(self, kernel, arguments, by, of, expected, in_outs=(), dims=None):
        self.kernel = kernel
        self.arguments = arguments
        self.by, self.of = by, of
        self.in_outs = in_outs
        self.outputs = [n for n, a in arguments.items() if isinstance(a, np.ndarray) and n.startswith("out")]
        self.dims = dims
        shape = arguments[of].shape
        self.weights = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
        self.expected = np.asarray(expected(**arguments, w=self.weights), np.float64)


def case(expected, by="x", of="out", in_outs=(), dims=None, **arguments):
    """Registers a kernel; what is expected of which arguments."""

    def register(kernel):
        name = getattr(kernel, "key", None) or kernel.name
        CASES[name] = Case(kernel, arguments, by, of, expected, in_outs, dims)
        return kernel

    return register


F = wp.array(dtype=wp.float64)
F2 = wp.array(dtype=wp.float64, ndim=2)
V = wp.array(dtype=wp.vec3d)
INTS = wp.array(dtype=wp.int32)
X = np.array([0.7, 1.1, 1.3])


def zeros(*shape):
    return np.zeros(shape)


# Straight lines


@case(lambda x, out, w: w * (np.cos(x) * np.exp(x) + np.sin(x) * np.exp(x)), x=X, out=zeros(3))
@wp.kernel
def product_of_functions(x: F, out: F):
    i = wp.tid()
    out[i] = wp.sin(x[i]) * wp.exp(x[i])


@case(lambda x, out, w: w * -1 / (x * x), x=X, out=zeros(3))
@wp.kernel
def reciprocal(x: F, out: F):
    i = wp.tid()
    out[i] = wp.float64(1.0) / x[i]


@case(lambda x, out, w: w * 2.5 * x**1.5, x=X, out=zeros(3))
@wp.kernel
def power(x: F, out: F):
    i = wp.tid()
    out[i] = wp.pow(x[i], wp.float64(2.5))


@case(lambda x, out, w: w * np.where(x > 1, 2 * x, 3), x=X, out=zeros(3))
@wp.kernel
def branch(x: F, out: F):
    i = wp.tid()
    v = x[i]
    if v > wp.float64(1.0):
        out[i] = v * v
    else:
        out[i] = v * wp.float64(3.0)


@case(lambda x, out, w: w * np.where(x > 1, 2 * x, 3 * x * x), x=X, out=zeros(3))
@wp.kernel
def swapped_in_a_branch(x: F, out: F):
    i = wp.tid()
    low = x[i] * x[i]
    high = x[i] * x[i] * x[i]
    if low < high:
        kept = low
        low = high
        high = kept
    out[i] = high


@case(lambda x, out, w: w * np.array([0, 0.5 / np.sqrt(4.0), 1.0 / 6]), x=np.array([0.0, 4.0, 9.0]), out=zeros(3))
@wp.kernel
def root_in_the_side_not_taken(x: F, out: F):
    i = wp.tid()
    out[i] = wp.where(x[i] > wp.float64(0.0), wp.sqrt(x[i]), wp.float64(0.0))


@case(lambda x, out, w: w * np.array([0.0, 1.0, 0.0]), x=np.array([0.2, 0.5, 0.9]), out=zeros(3))
@wp.kernel
def clamped(x: F, out: F):
    i = wp.tid()
    out[i] = wp.clamp(x[i], wp.float64(0.3), wp.float64(0.7))


@case(lambda x, out, w: w * np.array([-1.0, 1.0, 1.0]), x=np.array([-0.5, 0.0, 2.0]), out=zeros(3))
@wp.kernel
def absolute_value(x: F, out: F):
    i = wp.tid()
    out[i] = wp.abs(x[i])


@case(lambda x, out, w: np.zeros(3), x=X, out=zeros(3))
@wp.kernel
def steps(x: F, out: F):
    i = wp.tid()
    out[i] = wp.floor(x[i]) + wp.float64(int(x[i]))


# Loops with carried values


@case(lambda x, n, out, w: w * 2**n * 0.9 ** (2**n - 1) * x ** (2**n - 1), x=X, n=3, out=zeros(3))
@wp.kernel
def carried_square(x: F, n: int, out: F):
    i = wp.tid()
    v = x[i]
    for _k in range(n):
        v = wp.float64(0.9) * v * v
    out[i] = v


@case(lambda x, n, out, w: w * 2**n * 0.9 ** (2**n - 1) * x ** (2**n - 1), x=X, n=3, out=zeros(3))
@wp.kernel
def carried_square_in_a_while_with_break(x: F, n: int, out: F):
    i = wp.tid()
    v = x[i]
    k = int(0)
    while True:
        if k >= n:
            break
        v = wp.float64(0.9) * v * v
        k = k + 1
    out[i] = v


@case(lambda x, n, out, w: np.prod(x) / x, x=np.array([1.0, 4.0, 8.0]), n=3, out=zeros(1), dims=1)
@wp.kernel
def product_of_elements(x: F, n: int, out: F):
    p = wp.float64(1.0)
    for k in range(n):
        p = p * x[k]
    out[0] = p


@case(lambda x, n, out, w: w * 0.5 / np.sqrt(x), x=np.array([4.0, 2.0, 0.5]), n=20, out=zeros(3))
@wp.kernel
def newton_square_root(x: F, n: int, out: F):
    i = wp.tid()
    v = x[i]
    for _k in range(n):
        v = wp.float64(0.5) * (v + x[i] / v)
    out[i] = v


def _tanh_recurrence(x, n, out, w):
    v, d = x.copy(), np.ones_like(x)
    for _ in range(n):
        v = np.tanh(1.2 * v)
        d = d * 1.2 * (1 - v * v)
    return w * d


@case(_tanh_recurrence, x=X, n=100, out=zeros(3))
@wp.kernel
def tanh_recurrence(x: F, n: int, out: F):
    i = wp.tid()
    v = x[i]
    for _k in range(n):
        v = wp.tanh(wp.float64(1.2) * v)
    out[i] = v


@case(lambda x, out, w: w * 2.0 ** np.ceil(np.log2(700 / x)), x=X, out=zeros(3))
@wp.kernel
def doubled_until_large(x: F, out: F):
    i = wp.tid()
    v = x[i]
    while v < wp.float64(700.0):
        v = v * wp.float64(2.0)
    out[i] = v


@case(lambda x, out, w: np.array([0.0, 1.0, 0.0]), x=np.array([0.3, 0.9, 0.5]), out=zeros(1), dims=1)
@wp.kernel
def largest_by_continue(x: F, out: F):
    best = x[0]
    for k in range(x.shape[0]):
        if x[k] <= best:
            continue
        best = x[k]
    out[0] = best


@case(lambda x, n, out, w: np.array([1.0, 1.0, 0.0, 0.0]), x=np.array([0.5, 0.6, 0.7, 0.1]), n=4, out=zeros(1), dims=1)
@wp.kernel
def sum_until_above_one(x: F, n: int, out: F):
    s = wp.float64(0.0)
    for k in range(n):
        s = s + x[k]
        if s > wp.float64(1.0):
            break
    out[0] = s


@case(lambda x, n, out, w: np.full(3, w.sum()) * 2 * x, x=X, n=3, out=zeros(3))
@wp.kernel
def sum_of_squares_by_every_thread(x: F, n: int, out: F):
    i = wp.tid()
    s = wp.float64(0.0)
    for k in range(n):
        s += x[k] * x[k]
    out[i] = s


def _nested(x, n, out, w):
    d, v = np.ones_like(x), x.copy()
    for j in range(n):
        for _ in range(j):
            d, v = d * np.cos(v), np.sin(v)
        d, v = d * 2 * v, v * v
    return w * d


@case(_nested, x=X, n=4, out=zeros(3))
@wp.kernel
def nested_loops(x: F, n: int, out: F):
    i = wp.tid()
    v = x[i]
    for j in range(n):
        for _k in range(j):
            v = wp.sin(v)
        v = v * v
    out[i] = v


@case(lambda x, n, out, w: w * n * (n - 1) / 2, x=X, n=5, out=zeros(3))
@wp.kernel
def linear_carried_pair(x: F, n: int, out: F):
    i = wp.tid()
    a = wp.float64(0.0)
    b = wp.float64(0.0)
    for _k in range(n):
        b = b + a
        a = a + x[i]
    out[i] = b


def _swap(x, n, out, w):
    a, b, da, db = x.copy(), np.ones_like(x), np.ones_like(x), np.zeros_like(x)
    for _ in range(n):
        a, b, da, db = b, a * np.sin(b), db, da * np.sin(b) + a * np.cos(b) * db
    return w * da


@case(_swap, x=X, n=7, out=zeros(3))
@wp.kernel
def pair_that_changes_places(x: F, n: int, out: F):
    i = wp.tid()
    a = x[i]
    b = wp.float64(1.0)
    for _k in range(n):
        c = a * wp.sin(b)
        a = b
        b = c
    out[i] = a


@case(lambda x, n, out, w: w * 32 * x**31, x=X, n=5, out=zeros(3))
@wp.kernel
def countdown(x: F, n: int, out: F):
    i = wp.tid()
    v = x[i]
    for _k in range(n, 0, -1):
        v = v * v
    out[i] = v


@case(lambda x, n, out, w: w * 2.0**n * x ** (2.0**n - 1), x=X, n=np.array([0, 1, 4], np.int32), out=zeros(3))
@wp.kernel
def trips_of_each_thread(x: F, n: INTS, out: F):
    i = wp.tid()
    v = x[i]
    for _k in range(n[i]):
        v = v * v
    out[i] = v


@case(lambda x, n, out, w: w * 1.001**n, x=X, n=1000, out=zeros(3))
@wp.kernel
def a_thousand_steps(x: F, n: int, out: F):
    i = wp.tid()
    v = x[i]
    for _k in range(n):
        v = v * wp.float64(1.001)
    out[i] = v


# Memory


@case(lambda x, w: w * 8 * x**7, of="x", in_outs=("x",), x=X)
@wp.kernel
def squared_in_place_three_times(x: F):
    i = wp.tid()
    for _k in range(3):
        x[i] = x[i] * x[i]


@case(lambda x, n, w: w * 2.0**n * x ** (2.0**n - 1), of="x", in_outs=("x",), x=X, n=3)
@wp.kernel
def squared_in_place_in_a_dynamic_loop(x: F, n: int):
    i = wp.tid()
    for _k in range(n):
        x[i] = x[i] * x[i]


@case(lambda x, out, w: w * np.sin(2 * x), x=X, out=zeros(3))
@wp.kernel
def squared_in_the_output(x: F, out: F):
    i = wp.tid()
    out[i] = wp.sin(x[i])
    out[i] = out[i] * out[i]


@case(lambda x, a, w: w * a, of="a", in_outs=("a",), x=X, a=np.array([6.0, 2.0, 3.0]))
@wp.kernel
def multiplied_in_place(x: F, a: F):
    i = wp.tid()
    a[i] *= x[i]


@case(lambda x, a, w: w * x, by="a", of="a", in_outs=("a",), x=X, a=np.array([6.0, 2.0, 3.0]))
@wp.kernel
def multiplied_in_place_by_the_former_value(x: F, a: F):
    i = wp.tid()
    a[i] *= x[i]


@case(lambda x, out, w: w * 3, x=X, out=zeros(3))
@wp.kernel
def stored_twice(x: F, out: F):
    i = wp.tid()
    out[i] = x[i] * x[i]
    out[i] = x[i] * wp.float64(3.0)


@case(lambda x, a, w: np.zeros(3), by="a", of="a", in_outs=("a",), x=X, a=X + 1)
@wp.kernel
def former_contents_overwritten(x: F, a: F):
    i = wp.tid()
    a[i] = x[i]


@case(lambda x, index, out, w: np.array([w[0] + w[3], w[1], w[2]]) * 2 * x, x=X,
      index=np.array([0, 1, 2, 0], np.int32), out=zeros(4), dims=4)  # fmt: skip
@wp.kernel
def gather(x: F, index: INTS, out: F):
    i = wp.tid()
    v = x[index[i]]
    out[i] = v * v


@case(lambda x, index, out, w: w[index] * 2 * x, x=X, index=np.array([2, 0, 1], np.int32), out=zeros(3))
@wp.kernel
def scatter(x: F, index: INTS, out: F):
    i = wp.tid()
    out[index[i]] = x[i] * x[i]


@case(lambda x, out, w: w * 2 * x, x=np.array([1.7]), out=zeros(1), dims=7)
@wp.kernel
def one_value_stored_by_every_thread(x: F, out: F):
    _i = wp.tid()
    out[0] = x[0] * x[0]


@case(lambda x, index, out, w: w[index] * np.cos(x), x=X, index=np.array([1, 0, 1], np.int32), out=zeros(2), dims=3)
@wp.kernel
def atomic_sum(x: F, index: INTS, out: F):
    i = wp.tid()
    wp.atomic_add(out, index[i], wp.sin(x[i]))


@case(lambda x, out, w: -2 * x, x=X, out=zeros(1), dims=3)
@wp.kernel
def atomic_difference(x: F, out: F):
    i = wp.tid()
    wp.atomic_sub(out, 0, x[i] * x[i])


@case(lambda x, out, w: np.array([0.0, 2 * 1.9, 0.0]), x=np.array([0.3, 1.9, 0.5]), out=zeros(1), dims=3)
@wp.kernel
def atomic_maximum(x: F, out: F):
    i = wp.tid()
    wp.atomic_max(out, 0, x[i] * x[i])


@case(lambda x, out, w: np.array([0.0, 0.0, -np.sin(2.5)]), x=np.array([0.3, 1.9, 2.5]), out=zeros(1), dims=3)
@wp.kernel
def atomic_minimum(x: F, out: F):
    i = wp.tid()
    wp.atomic_min(out, 0, wp.cos(x[i]))


def _recurrence(x, n, a, w):
    total, d, v = 0.0, 1.0, float(x[0])
    for k in range(n + 1):
        total += w[n - k] * d
        d, v = d * 2 * v, v * v
    return [total]


@case(_recurrence, of="a", in_outs=("a",), x=np.array([1.1]), n=3, a=zeros(4), dims=1)
@wp.kernel
def recurrence_along_an_array(x: F, n: int, a: F):
    i = wp.tid()
    a[i + n] = x[i]
    for k in range(n):
        a[i + n - k - 1] = a[i + n - k] * a[i + n - k]


# Stores of several threads to one element: the last thread wins


FOUR = np.array([1.0, 2.0, 3.0, 4.0])


def _by_winners(x, w, *winners):
    """The derivative of squares, each stored last by one thread; None: by nobody."""
    found = np.zeros_like(x)
    for weight, thread in zip(w, winners, strict=True):
        if thread is not None:
            found[thread] += weight * 2 * x[thread]
    return found


@case(lambda x, out, w: _by_winners(x, w, 3), x=FOUR, out=zeros(1), dims=4)
@wp.kernel
def stored_by_all_threads(x: F, out: F):
    i = wp.tid()
    out[0] = x[i] * x[i]


@case(lambda x, out, w: _by_winners(x, w, 1, 3), x=FOUR, out=zeros(2), dims=4)
@wp.kernel
def stored_by_pairs_of_threads(x: F, out: F):
    i = wp.tid()
    out[i // 2] = x[i] * x[i]


@case(lambda x, out, w: _by_winners(x, w, 2), x=np.array([1.0, 3.0, 4.0, 2.0]), out=zeros(1), dims=4)
@wp.kernel
def stored_by_some_threads(x: F, out: F):
    i = wp.tid()
    if x[i] > wp.float64(2.5):
        out[0] = x[i] * x[i]


@case(lambda x, index, out, w: _by_winners(x, w, None, 2, 3), x=FOUR, index=np.array([1, 2, 1, 2], np.int32),
      out=zeros(3), dims=4)  # fmt: skip
@wp.kernel
def stored_where_data_says(x: F, index: INTS, out: F):
    i = wp.tid()
    out[index[i]] = x[i] * x[i]


@case(lambda x, index, a, w: w * np.array([1.0, 0.0, 0.0]), by="a", of="a", in_outs=("a",), x=FOUR,
      index=np.array([1, 2, 1, 2], np.int32), a=np.array([5.0, 6.0, 7.0]), dims=4)  # fmt: skip
@wp.kernel
def kept_where_nobody_stores(x: F, index: INTS, a: F):
    i = wp.tid()
    a[index[i]] = x[i] * x[i]


# Vectors, shared and scalar arguments, shapes


@case(lambda x, out, w: np.stack([w[:, 0] + w[:, 1] * x[:, 1], w[:, 1] * x[:, 0], w[:, 2]], axis=1),
      x=np.arange(1.0, 7.0).reshape(2, 3), out=zeros(2, 3), dims=2)  # fmt: skip
@wp.kernel
def component_assigned(x: V, out: V):
    i = wp.tid()
    v = x[i]
    v[1] = v[0] * v[1]
    out[i] = v


def _twice(x, out, w):
    a, b = x[:, 0], x[:, 1]
    last = w[:, 1] * 2 * a * b
    return np.stack([w[:, 0] + last * b, last * a, w[:, 2]], axis=1)


@case(_twice, x=np.arange(1.0, 7.0).reshape(2, 3), out=zeros(2, 3), dims=2)
@wp.kernel
def component_assigned_twice(x: V, out: V):
    i = wp.tid()
    v = x[i]
    v[1] = v[0] * v[1]
    v[1] = v[1] * v[1]
    out[i] = v


@case(lambda x, out, w: w[:, None] * x / np.linalg.norm(x, axis=1, keepdims=True),
      x=np.arange(1.0, 7.0).reshape(2, 3), out=zeros(2), dims=2)  # fmt: skip
@wp.kernel
def vector_length(x: V, out: F):
    i = wp.tid()
    out[i] = wp.length(x[i])


@case(lambda x, a, out, w: [np.sum(w * a)], x=np.array([3.0]), a=np.array([1.0, 2.0, 3.0]), out=zeros(3), dims=3)
@wp.kernel
def shared_weight(x: F, a: F, out: F):
    i = wp.tid()
    out[i] = x[0] * a[i]


@case(lambda a, x, out, w: np.sum(w * np.cos(x * a) * a), a=X, x=0.4, out=zeros(3))
@wp.kernel
def scalar_argument(a: F, x: wp.float64, out: F):
    i = wp.tid()
    out[i] = wp.sin(x * a[i])


@case(lambda x, b, out, w: w @ b.T, x=np.arange(6.0).reshape(3, 2), b=np.arange(10.0).reshape(2, 5) - 3,
      out=zeros(3, 5), dims=(3, 5))  # fmt: skip
@wp.kernel
def matrix_product(x: F2, b: F2, out: F2):
    i, j = wp.tid()
    s = wp.float64(0.0)
    for k in range(x.shape[1]):
        s += x[i, k] * b[k, j]
    out[i, j] = s


@case(lambda x, out, w: 2 * w - np.roll(w, 1) * 0.5 - np.roll(w, -1) * 0.5, x=np.arange(5.0) ** 2, out=zeros(5))
@wp.kernel
def stencil(x: F, out: F):
    i = wp.tid()
    n = x.shape[0]
    out[i] = wp.float64(2.0) * x[i] - wp.float64(0.5) * (x[(i + 1) % n] + x[(i + n - 1) % n])


@case(lambda x, out, w: np.sum(w.reshape(3, 2) * np.array([1.0, 2.0]), axis=1) * np.cos(x), x=X, out=zeros(6), dims=3)
@wp.kernel
def larger_output(x: F, out: F):
    i = wp.tid()
    out[2 * i] = wp.sin(x[i])
    out[2 * i + 1] = wp.float64(2.0) * wp.sin(x[i])


@case(lambda x, n, out, w: w * np.where(np.arange(3) < n, 2 * x, 0), x=X, n=2, out=zeros(3))
@wp.kernel
def early_return(x: F, n: int, out: F):
    i = wp.tid()
    if i >= n:
        return
    out[i] = x[i] * x[i]


@case(lambda x, w: w * np.cos(np.sin(x)) * np.cos(x), of="x", in_outs=("x",), x=X)
@wp.kernel
def sine_of_sine_in_place(x: F):
    i = wp.tid()
    x[i] = wp.sin(x[i])
    x[i] = wp.sin(x[i])


@case(lambda x, out, w: w * 10 * x**9, x=X, out=zeros(3))
@wp.kernel
def while_that_reads_what_it_stores(x: F, out: F):
    i = wp.tid()
    out[i] = wp.float64(1.0)
    k = int(0)
    while k < 10:
        out[i] = out[i] * x[i]
        k = k + 1


# Rules by hand


@wp.func
def rounded(x: wp.float64, y: wp.float64):
    return wp.round(x) * y, wp.floor(y)


@wp.func_grad(rounded)
def adj_rounded(x: wp.float64, y: wp.float64, adj_a: wp.float64, adj_b: wp.float64):
    wp.adjoint[x] += y * adj_a
    if y > wp.float64(2.0):
        wp.adjoint[y] += x * adj_a + adj_b


@case(lambda x, out, w: w * (2 * x + np.where(x > 1, 2 * x + 2, 0)), x=X, out=zeros(3))
@wp.kernel
def rule_by_hand(x: F, out: F):
    i = wp.tid()
    a, b = rounded(x[i], wp.float64(2.0) * x[i])
    out[i] = a + b


@wp.func
def next_place(counter: wp.array(dtype=wp.int32), places: wp.array(dtype=wp.int32), i: int):
    place = wp.atomic_add(counter, 0, 1)
    places[i] = place
    return place


@wp.func_replay(next_place)
def replay_next_place(counter: wp.array(dtype=wp.int32), places: wp.array(dtype=wp.int32), i: int):
    return places[i]


@case(lambda x, counter, places, out, w: w * 2 * x, x=X, counter=np.zeros(1, np.int32), places=np.zeros(3, np.int32),
      in_outs=("counter", "places"), out=zeros(3))  # fmt: skip
@wp.kernel
def counter_replayed(x: F, counter: INTS, places: INTS, out: F):
    """Few threads run in order."""
    i = wp.tid()
    out[next_place(counter, places, i)] = x[i] * x[i]


# Arrays of a thread's own


def _bins(x, at):
    h, d = np.zeros(3), np.zeros(3)
    for k, j in enumerate(at):
        h[j], d[j] = h[j] * x + k, d[j] * x + h[j]
    return 2 * (h * d).sum()


@case(lambda x, at, out, w: w * [_bins(v, at) for v in x], x=X, at=np.array([2, 0, 2, 1, 0, 2], np.int32), out=zeros(3),
      dims=3)  # fmt: skip
@wp.kernel
def array_of_the_thread(x: F, at: INTS, out: F):
    i = wp.tid()
    h = wp.zeros(shape=3, dtype=wp.float64)
    for k in range(at.shape[0]):
        j = at[k]
        h[j] = h[j] * x[i] + wp.float64(k)
    total = wp.float64(0.0)
    for j in range(3):
        total += h[j] * h[j]
    out[i] = total


# Elements that are overwritten after they were read


def _solved(x, b, out, w):
    inverse = np.linalg.inv(x)
    solution = np.einsum("tij,tj->ti", inverse, b)
    pulled = np.einsum("tji,tj->ti", inverse, w)
    return -pulled[:, :, None] * solution[:, None, :]


SQUARES = np.array([[2.0, 0.5, 0.3, 0.4, 1.8, 0.2, 0.1, 0.6, 1.5], [1.5, 0.2, 0.1, 0.3, 2.2, 0.4, 0.5, 0.1, 1.9]])


@case(_solved, x=SQUARES.reshape(2, 3, 3), b=np.array([[1.0, 0.7, 0.4], [0.2, 0.9, 1.1]]), out=zeros(2, 3),
      in_outs=("x",), dims=2)  # fmt: skip
@wp.kernel
def elimination_in_place(x: wp.array(dtype=wp.float64, ndim=3), b: F2, out: F2):
    t = wp.tid()
    for k in range(3):
        out[t, k] = b[t, k]
    for k in range(3):
        for i in range(k + 1, 3):
            factor = x[t, i, k] / x[t, k, k]
            for j in range(k, 3):
                x[t, i, j] = x[t, i, j] - factor * x[t, k, j]
            out[t, i] = out[t, i] - factor * out[t, k]
    for m in range(3):
        k = 2 - m
        total = out[t, k]
        for j in range(k + 1, 3):
            total -= x[t, k, j] * out[t, j]
        out[t, k] = total / x[t, k, k]


def _softmaxed(x, offsets, out, w):
    found = np.zeros_like(x)
    for a, b in itertools.pairwise(offsets):
        p = np.exp(x[a:b]) / np.exp(x[a:b]).sum()
        found[a:b] = p * (w[a:b] - (w[a:b] * p).sum())
    return found


@case(_softmaxed, x=np.array([0.7, 1.1, 1.3, 0.2, 0.9]), offsets=np.array([0, 2, 5], np.int32), out=zeros(5), dims=2)
@wp.kernel
def softmax_of_rows_found_in_data(x: F, offsets: INTS, out: F):
    i = wp.tid()
    total = wp.float64(0.0)
    for k in range(offsets[i], offsets[i + 1]):
        out[k] = wp.exp(x[k])
        total += out[k]
    for k in range(offsets[i], offsets[i + 1]):
        out[k] = out[k] / total


def _components(x, out, w):
    by_sine = w[::2] + w[1::2] * x[1::2]
    return np.stack([by_sine * np.cos(x[::2]), w[1::2] * np.sin(x[::2])], 1).ravel()


@case(_components, x=np.array([0.7, 1.1, 1.3, 0.2]), out=zeros(4), dims=2)
@wp.kernel
def components_of_a_flat_array(x: F, out: F):
    i = wp.tid()
    out[2 * i] = wp.sin(x[2 * i])
    out[2 * i + 1] = out[2 * i] * x[2 * i + 1]


@case(lambda x, out, w: w * 8 * x**7, x=np.array([[0.7, 1.1], [1.3, 0.9]]), out=zeros(2, 2), dims=2)
@wp.kernel
def rows_squared_thrice(x: F2, out: F2):
    i = wp.tid()
    for k in range(x.shape[1]):
        out[i, k] = x[i, k]
    for _ in range(3):
        for k in range(x.shape[1]):
            out[i, k] = out[i, k] * out[i, k]


# Outputs that nobody uses


@case(lambda x, out, out_root, w: w * 2 * x, x=np.array([0.0, 1.0, 4.0]), out=zeros(3), out_root=zeros(3))
@wp.kernel
def infinite_slope_of_an_unused_output(x: F, out: F, out_root: F):
    i = wp.tid()
    out[i] = x[i] * x[i]
    out_root[i] = wp.sqrt(x[i])


@case(lambda x, out, out_last, w: w * 3 * x * x, x=np.array([0.0, 1.0, 4.0]), out=zeros(3), out_last=zeros(3))
@wp.kernel
def infinite_slope_of_what_is_not_read_back(x: F, out: F, out_last: F):
    i = wp.tid()
    out_last[i] = x[i] * x[i]
    out[i] = out_last[i] * x[i]
    out_last[i] = wp.log(x[i])


# Quaternions, transforms, spatial vectors

Q = wp.array(dtype=wp.quatd)
T = wp.array(dtype=wp.transformd)
S = wp.array(dtype=wp.spatial_vectord)
UNIT = np.array([[0.4, -0.2, 0.4, 0.8], [0.6, 0.0, 0.8, 0.0], [0.0, 0.0, 0.0, 1.0]])
VECTORS = np.array([[0.3, -1.2, 0.8], [1.0, 2.0, -0.5], [0.2, 0.1, 0.4]])


def _left(q):
    """The matrix of products q * r."""
    x, y, z, w = q
    return np.array([[w, -z, y, x], [z, w, -x, y], [-y, x, w, z], [-x, -y, -z, w]])


def _turning(q):
    x, y, z, w = q
    u = np.array([x, y, z])
    return (2 * w * w - 1) * np.eye(3) + 2 * np.outer(u, u) + 2 * w * np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])


@case(lambda x, q, out, w: np.stack([_left(a).T @ b for a, b in zip(q, w, strict=True)]),
      x=UNIT[::-1].copy(), q=UNIT, out=zeros(3, 4))  # fmt: skip
@wp.kernel
def product_of_quaternions(x: Q, q: Q, out: Q):
    i = wp.tid()
    out[i] = q[i] * x[i]


@case(lambda x, q, out, w: np.stack([_turning(a).T @ b for a, b in zip(q, w, strict=True)]),
      x=VECTORS, q=UNIT, out=zeros(3, 3))  # fmt: skip
@wp.kernel
def rotated_vector(x: V, q: Q, out: V):
    i = wp.tid()
    out[i] = wp.quat_rotate(q[i], x[i])


@case(lambda x, out, w: 0.3 * w * [1, 1, 1, 0], x=np.array([[0.0, 0.0, 0.0, 1.0]]), out=zeros(1, 4))
@wp.kernel
def slerp_between_equal_rotations(x: Q, out: Q):
    i = wp.tid()
    start = wp.quatd(wp.float64(0.0), wp.float64(0.0), wp.float64(0.0), wp.float64(1.0))
    out[i] = wp.quat_slerp(start, x[i], wp.float64(0.3))


def _projected(x, w):
    return w - np.sum(w * x, 1, keepdims=True) * x


@case(lambda x, out, w: _projected(x, w), x=UNIT, out=zeros(3, 4))
@wp.kernel
def quaternion_of_a_matrix_also_of_half_a_turn(x: Q, out: Q):
    i = wp.tid()
    out[i] = wp.quat_from_matrix(wp.quat_to_matrix(wp.normalize(x[i])))


@case(lambda x, t, out, w: w, x=VECTORS[:1], t=np.array([[1.0, 2.0, 3.0, 0.4, -0.2, 0.4, 0.8]]), out=zeros(1, 3))
@wp.kernel
def there_and_back(x: V, t: T, out: V):
    i = wp.tid()
    out[i] = wp.transform_point(wp.transform_inverse(t[i]), wp.transform_point(t[i], x[i]))


def _parts(x, out, w):
    (w,) = w
    return np.array([[2 * w[0], 2 * w[1], 3 * w[3], 0.0, w[5], w[4], 0.0]])


@case(_parts, x=np.array([[1.0, 2.0, 3.0, 0.4, -0.2, 0.4, 0.8]]), out=zeros(1, 7))
@wp.kernel
def parts_of_a_transform(x: T, out: T):
    i = wp.tid()
    t = wp.transformd(wp.float64(2.0) * x[i].p, x[i].q)
    t.p[2] = wp.float64(1.0)
    t.q = wp.quatd(wp.float64(3.0) * x[i].p[2], x[i].q[2], x[i].q[1], wp.float64(0.5))
    out[i] = t


def _wrenches(x, y, out, w):
    rows = []
    for b, g in zip(y, w, strict=True):
        dw = np.cross(b[:3], g[:3]) + np.cross(b[3:], g[3:])
        rows.append(np.append(dw, np.cross(b[3:], g[:3])))
    return np.stack(rows)


@case(_wrenches, x=np.arange(12.0).reshape(2, 6), y=np.sin(np.arange(12.0)).reshape(2, 6), out=zeros(2, 6))
@wp.kernel
def cross_product_of_spatial_vectors(x: S, y: S, out: S):
    i = wp.tid()
    out[i] = wp.spatial_cross_dual(x[i], y[i])


# Structs


@wp.struct
class Oscillator:
    x: wp.float64
    v: wp.float64


@wp.struct
class Pair:
    first: Oscillator
    w: wp.vec3d


@wp.func
def kicked(o: Oscillator, by: wp.float64):
    o.v = o.v + by * o.x
    return o


@case(lambda x, out, w: w * (4 * x**3 + 6 * x**2), x=X, out=zeros(3))
@wp.kernel
def struct_passed_and_returned(x: F, out: F):
    i = wp.tid()
    o = Oscillator()
    o.x = x[i]
    o.v = x[i] * x[i]
    p = kicked(o, wp.float64(2.0))
    out[i] = p.v * o.v


@case(lambda x, out, w: w * 3 * x**2, x=X, out=zeros(3))
@wp.kernel
def struct_copied_and_changed(x: F, out: F):
    i = wp.tid()
    o = Oscillator()
    o.x = x[i]
    p = o
    p.x = p.x * p.x
    out[i] = o.x * p.x


@case(lambda x, out, w: w * 8 * x**7, x=X, out=zeros(3))
@wp.kernel
def struct_changed_in_a_loop(x: F, out: F):
    i = wp.tid()
    o = Oscillator()
    o.x = x[i]
    for _ in range(3):
        o.x = o.x * o.x
    out[i] = o.x


@case(lambda x, out, w: w * np.where(x > 1, 3 * x**2, 6 * x), x=X, out=zeros(3))
@wp.kernel
def struct_changed_on_one_path(x: F, out: F):
    i = wp.tid()
    o = Oscillator()
    o.x = wp.float64(3.0) * x[i]
    o.v = x[i]
    if x[i] > wp.float64(1.0):
        o.x = x[i] * x[i]
    out[i] = o.x * o.v


@case(lambda x, out, w: w * 5 * x**4, x=X, out=zeros(3))
@wp.kernel
def struct_in_a_struct(x: F, out: F):
    i = wp.tid()
    p = Pair()
    p.first.x = x[i] * x[i]
    p.w = wp.vec3d(x[i], x[i] * x[i], x[i])
    q = p.first
    q.x = q.x * p.w[1]
    out[i] = q.x * p.w[2]


@case(lambda x, out, w: w * x * (2 * np.sin(x) + x * np.cos(x)), x=X, out=zeros(3))
@wp.kernel
def struct_made_of_values(x: F, out: F):
    i = wp.tid()
    p = Pair(Oscillator(x[i], wp.sin(x[i])), wp.vec3d(x[i]))
    out[i] = p.first.x * p.first.v * p.w[2]


# Random numbers


def _draws(threads, count):
    """What `randf` gives the threads of seed 3, a row each."""
    with np.errstate(over="ignore"):
        hashed = lambda x: _permuted(x * np.uint32(747796405) + np.uint32(2891336453))  # noqa: E731
        state = hashed(np.uint32(3) + hashed(np.arange(threads, dtype=np.uint32)))
        rows = []
        for _ in range(count):
            state = hashed(state)
            rows.append((state >> np.uint32(8)) / 2.0**24)
    return np.stack(rows, 1)


def _permuted(x):
    x = ((x >> ((x >> np.uint32(28)) + np.uint32(4))) ^ x) * np.uint32(277803737)
    return (x >> np.uint32(22)) ^ x


@case(lambda x, out, w: w * _draws(3, 4).sum(1) * np.cos(x), x=X, out=zeros(3))
@wp.kernel
def random_weights_in_a_loop(x: F, out: F):
    i = wp.tid()
    state = wp.rand_init(3, i)
    total = wp.float64(0.0)
    for _ in range(4):
        total = total + wp.float64(wp.randf(state)) * wp.sin(x[i])
    out[i] = total


def _thinned(x, out, w):
    r = _draws(3, 20)
    steps = np.argmax(r < 0.3, axis=1)
    return w * np.prod([np.where(k < steps, 1.0 + r[:, k], 1.0) for k in range(20)], axis=0) * 3 * x * x


@case(_thinned, x=X, out=zeros(3))
@wp.kernel
def random_steps_until_one_is_small(x: F, out: F):
    i = wp.tid()
    state = wp.rand_init(3, i)
    y = x[i] * x[i] * x[i]
    r = wp.randf(state)
    while r >= 0.3:
        y = y * (wp.float64(1.0) + wp.float64(r))
        r = wp.randf(state)
    out[i] = y


# Vectors at zero, slices, parts, functions


@case(lambda x, out, w: np.stack([b * a / np.linalg.norm(a) if a.any() else 0 * a for a, b in zip(x, w, strict=True)]),
      x=np.array([[0.0, 0.0, 0.0], [3.0, 0.0, 4.0]]), out=zeros(2))  # fmt: skip
@wp.kernel
def length_also_of_zero(x: V, out: F):
    i = wp.tid()
    out[i] = wp.length(x[i])


def _directions(x, out, w):
    rows = []
    for a, b in zip(x, w, strict=True):
        n = np.linalg.norm(a)
        rows.append((b - a * (a @ b) / (n * n)) / n if n else 0 * a)
    return np.stack(rows)


@case(_directions, x=np.array([[0.0, 0.0, 0.0], [3.0, 0.0, 4.0]]), out=zeros(2, 3))
@wp.kernel
def direction_also_of_zero(x: V, out: V):
    i = wp.tid()
    out[i] = wp.normalize(x[i])


@case(lambda x, out, w: np.stack([w * 2 * x[:, 1] * x[:, 0], w * x[:, 0] ** 2, w * 3 * x[:, 2] ** 2], 1),
      x=VECTORS, out=zeros(3))  # fmt: skip
@wp.kernel
def slices_read_and_assigned(x: V, out: F):
    i = wp.tid()
    v = x[i]
    v[1:] = x[i][:2]
    out[i] = v[0] * v[1] * x[i][1:][0] + x[i][2] * x[i][2] * x[i][::-1][0]


@wp.func
def norm_and_sum(v: wp.vec3d):
    return wp.dot(v, v), v[0] + v[1] + v[2]


@case(lambda x, out, w: w[:, None] * (2 * x * x.sum(1)[:, None] + (x * x).sum(1)[:, None]), x=VECTORS, out=zeros(3))
@wp.kernel
def several_results(x: V, out: F):
    i = wp.tid()
    n, s = norm_and_sum(x[i])
    out[i] = n * s


@wp.func
def scaled(a: wp.float64, b: wp.float64):
    return a * b


@wp.func
def scaled(a: wp.float64, b: wp.vec3d):  # noqa: F811
    return a * (b[0] + b[1] * b[2])


@case(lambda x, out, w: w * (2 * x + 2 * x * (1 + x * x) + x * x * 2 * x), x=X, out=zeros(3))
@wp.kernel
def functions_of_one_name(x: F, out: F):
    i = wp.tid()
    out[i] = scaled(x[i], x[i]) + scaled(x[i] * x[i], wp.vec3d(wp.float64(1.0), x[i], x[i]))


@wp.func
def ratio_and_product(a: wp.float64, b: wp.float64):
    return a / b, a * b


@wp.func_grad(ratio_and_product)
def adj_ratio_and_product(a: wp.float64, b: wp.float64, adj_r: wp.float64, adj_p: wp.float64):
    if b > a:
        wp.adjoint[a] += adj_r / b + adj_p * b
    else:
        wp.adjoint[a] += adj_r / b
        wp.adjoint[a] += adj_p * b
    wp.adjoint[b] += adj_p * a - adj_r * a / (b * b)


@case(lambda x, out, w: w * (5 * x**4 / 1.0 + (-1 / (x * x))), x=X, out=zeros(3))
@wp.kernel
def rule_of_several_results(x: F, out: F):
    i = wp.tid()
    r, p = ratio_and_product(x[i] * x[i], x[i] * x[i] * x[i])
    out[i] = p + r


# Decompositions

M = wp.array(dtype=wp.mat33d)
MATRICES = np.array(
    [[[2.0, 0.3, -0.5], [0.1, 1.2, 0.4], [0.7, -0.2, 0.6]], [[1.0, 2.0, 0.0], [0.0, 3.0, 1.0], [1.0, 0.0, 4.0]]]
)


def _singular(x, out, w):
    u, _, v = np.linalg.svd(x)
    return np.stack([a @ np.diag(b) @ c for a, b, c in zip(u, w, v, strict=True)])


@case(_singular, x=MATRICES, out=zeros(2, 3))
@wp.kernel
def singular_values(x: M, out: V):
    i = wp.tid()
    U, sigma, V_ = wp.svd3(x[i])
    out[i] = sigma


def _polar(x, out, w):
    """The rotation R of A = R P moves by R dW, where P dW + dW P = 2 skew(R^T dA)."""
    result = []
    for a, b in zip(x, w, strict=True):
        u, s, v = np.linalg.svd(a)
        r = u @ v
        g = v @ (r.T @ b) @ v.T
        g = (g - g.T) / (s[:, None] + s[None, :])
        result.append(r @ v.T @ g @ v)
    return np.stack(result)


@case(_polar, x=MATRICES, out=zeros(2, 3, 3))
@wp.kernel
def rotation_of_a_matrix(x: M, out: M):
    i = wp.tid()
    U, sigma, V_ = wp.svd3(x[i])
    out[i] = U * wp.transpose(V_)


def _symmetric(x):
    return 0.5 * (x + np.swapaxes(x, 1, 2))


def _eigen(x, out, w):
    values, vectors = np.linalg.eigh(_symmetric(x))
    return np.stack([q[:, ::-1] @ np.diag(b) @ q[:, ::-1].T for q, b in zip(vectors, w, strict=True)])


@case(_eigen, x=MATRICES, out=zeros(2, 3))
@wp.kernel
def eigenvalues(x: M, out: V):
    i = wp.tid()
    Q_, d = wp.eig3(wp.float64(0.5) * (x[i] + wp.transpose(x[i])))
    out[i] = d


@case(lambda x, out, w: np.stack([b * (1 + 2 * np.trace(a)) * np.eye(3) for a, b in zip(x, w, strict=True)]),
      x=MATRICES, out=zeros(2))  # fmt: skip
@wp.kernel
def factors_give_the_matrix_back(x: M, out: F):
    i = wp.tid()
    Q_, R = wp.qr3(x[i])
    t = wp.trace(Q_ * R)
    out[i] = t + t * t


# Quaternions of angles, and what is found by a search


@case(lambda x, out, w: w * 2 * np.cos(2 * x), x=X, out=zeros(3))
@wp.kernel
def quaternion_of_an_angle(x: F, out: F):
    i = wp.tid()
    zero = wp.float64(0.0)
    q = wp.quat_from_axis_angle(wp.vec3d(zero, zero, wp.float64(1.0)), wp.float64(2.0) * x[i])
    out[i] = wp.quat_rotate(q, wp.vec3d(wp.float64(1.0), zero, zero))[1]


@case(lambda x, out, w: w * 2 * x, x=X, out=zeros(3))
@wp.kernel
def angle_of_a_quaternion(x: F, out: F):
    i = wp.tid()
    zero = wp.float64(0.0)
    q = wp.quat_from_axis_angle(wp.vec3d(zero, wp.float64(1.0), zero), x[i])
    axis, angle = wp.quat_to_axis_angle(q * q)
    out[i] = angle * angle / wp.float64(4.0)


KNOTS = np.array([0.0, 0.5, 1.0, 1.2, 2.0])


@case(lambda x, knots, out, w: w * (np.diff(knots**2) / np.diff(knots))[np.searchsorted(knots, x) - 1],
      x=X, knots=KNOTS, out=zeros(3))  # fmt: skip
@wp.kernel
def interpolation_between_knots(x: F, knots: F, out: F):
    i = wp.tid()
    k = wp.lower_bound(knots, x[i])
    a, b = knots[k - 1], knots[k]
    t = (x[i] - a) / (b - a)
    out[i] = (wp.float64(1.0) - t) * a * a + t * b * b


@case(lambda x, out, w: w * 5 * x**4, x=X, out=zeros(3))
@wp.kernel
def components_of_a_long_vector(x: F, out: F):
    i = wp.tid()
    v = wp.vector(x[i], length=5)
    y = wp.float64(1.0)
    for k in range(5):
        y = y * v[k]
    out[i] = y


@case(lambda x, out, w: w * 4 * x**3, x=X, out=zeros(3))
@wp.kernel
def point_moved_and_moved_back(x: F, out: F):
    i = wp.tid()
    zero = wp.float64(0.0)
    t = wp.transformd(wp.vec3d(x[i], zero, zero), wp.quat_from_axis_angle(wp.vec3d(zero, zero, wp.float64(1.0)), x[i]))
    p = wp.transform_point(t, wp.vec3d(zero, x[i], zero))
    q = wp.transform_point(wp.transform_inverse(t), p)
    out[i] = q[1] * q[1] * q[1] * q[1]


@case(lambda x, out, w: w * (2 * x + 3 * x * x), x=X, out=zeros(3))
@wp.kernel
def elements_of_a_tuple_in_a_loop(x: F, out: F):
    i = wp.tid()
    total = wp.float64(0.0)
    for part in (x[i] * x[i], x[i] * x[i] * x[i]):
        total = total + part
    out[i] = total


@case(lambda x, out, w: w / (1 - x), x=np.array([0.1, 0.3, 0.8]), out=zeros(3))
@wp.kernel
def slope_of_the_quantile(x: F, out: F):
    """The derivative of erfinv is sqrt(pi) / 2 exp(z**2), whose logarithm is divided by here."""
    i = wp.tid()
    z = wp.erfinv(x[i])
    y = wp.erfcinv(wp.float64(1.0) - x[i])
    out[i] = -wp.log(wp.float64(1.0) - x[i]) + z * z - y * y


@wp.struct
class Complex:
    re: wp.float64
    im: wp.float64


@wp.func
def add(a: Complex, b: Complex):
    return Complex(a.re + b.re, a.im + b.im)


@wp.func
def mul(a: Complex, b: Complex):
    return Complex(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)


@case(lambda x, out, w: w * np.real(3 * (x + 2j) ** 2 + 2 * (x + 2j)), x=X, out=zeros(3))
@wp.kernel
def operators_of_a_struct(x: F, out: F):
    i = wp.tid()
    z = Complex(x[i], wp.float64(2.0))
    y = z * z
    y += z * z * z
    out[i] = y.re
