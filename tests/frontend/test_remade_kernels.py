"""Kernels that are made anew: found again if they are the same, and never taken for another one."""

import gc
import linecache
import sys

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.frontend import found
from jaxwarp.launches import code

kernel_module = sys.modules["jaxwarp.kernel"]
SCALE = 2.0


class Settings:
    gain = 3.0


@pytest.fixture
def lowered(monkeypatch):
    """The kernels that are lowered."""
    names = []
    lower = kernel_module.lowered
    monkeypatch.setattr(kernel_module, "lowered", lambda source, *a: names.append(source.name) or lower(source, *a))
    return names


def result(kernel, *others):
    x, y = wp.array([1.0, 2.0, 3.0], dtype=float), wp.zeros(3, dtype=float)
    wp.launch(kernel, 3, [x, y, *others])
    return y.numpy().tolist()


def of_number(factor):
    @wp.kernel
    def k(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = x[i] * factor

    return k


class Late:
    """An object whose kernel is made before the attributes that it names."""

    def __init__(self, gain):
        @wp.func
        def scaled(x: float):
            return x * self.gain

        @wp.kernel
        def direct(x: wp.array[float], y: wp.array[float]):
            i = wp.tid()
            y[i] = x[i] * self.gain

        @wp.kernel
        def through(x: wp.array[float], y: wp.array[float]):
            i = wp.tid()
            y[i] = scaled(x[i])

        self.direct, self.through = direct, through
        self.gain = gain


@pytest.mark.parametrize("name", ["direct", "through"])
def test_attributes_set_after_the_kernel_is_made(name):
    for gain in (1.0, 2.0, 7.0):
        assert result(getattr(Late(gain), name)) == [gain, 2 * gain, 3 * gain]


def test_rules_come_too_late_once_a_kernel_is_known_by_what_it_is():
    def make():
        @wp.func
        def squared(x: float):
            return x * x

        @wp.kernel
        def k(x: wp.array[float], y: wp.array[float]):
            i = wp.tid()
            y[i] = squared(x[i])

        return squared, k

    def rule(x: float, r: float):
        wp.adjoint[x] += 7.0 * r

    squared, k = make()
    wp.launch(k, 0, [wp.zeros(3), wp.zeros(3)])
    with pytest.raises(wp.KernelError, match="right after squared"):
        wp.func_grad(squared)(rule)


def test_a_function_whose_name_gets_another_overload(tmp_path):
    text = """
import jaxwarp as wp

@wp.func
def f(x: int):
    return x * 2

@wp.func
def f(x: float):
    return float(f(int(x)))

h = f

def make():
    @wp.kernel
    def k(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = h(x[i])
    return k

def change():
    @wp.func
    def f(x: int):
        return x * 3
    globals()["f"] = f
"""
    file = tmp_path / "of_overloads.py"
    file.write_text(text)
    scope = {"__name__": "of_overloads"}
    exec(compile(text, str(file), "exec"), scope)
    first = scope["make"]()
    assert result(first) == [2.0, 4.0, 6.0]
    scope["change"]()
    assert result(scope["make"]()) == [3.0, 6.0, 9.0]


def test_a_kernel_made_again_is_not_lowered_again(lowered):
    assert result(of_number(5.5)) == [5.5, 11.0, 16.5]
    first = of_number(5.5)
    result(first)
    made = code._made.cache_info().misses
    count = len(lowered)
    for _ in range(5):
        gc.collect()
        assert result(of_number(5.5)) == [5.5, 11.0, 16.5]
    assert len(lowered) == count
    assert code._made.cache_info().misses == made
    assert of_number(5.5).found is first.found
    assert of_number(5.25).found is not first.found


def test_a_kernel_made_once_goes_with_what_was_found():
    kept = len(found._kept)
    for n in range(5):
        result(of_number(800.5 + n))
    gc.collect()
    assert len(found._kept) == kept


def test_numbers_that_are_equal_and_not_the_same():
    values = [1, 1.0, True, np.float32(1), 0.0, -0.0]
    kernels = [of_number(v) for v in values]
    assert len({id(k.found) for k in kernels}) == len(values)

    def signed(zero):
        @wp.kernel
        def k(x: wp.array[float], y: wp.array[float]):
            i = wp.tid()
            y[i] = wp.atan2(zero, -x[i])

        return k

    up, down = signed(0.0), signed(-0.0)
    assert result(up)[0] == pytest.approx(np.pi)
    assert result(down)[0] == pytest.approx(-np.pi)
    assert result(signed(0.0))[0] == pytest.approx(np.pi)


def test_contents_of_what_changes_in_place():
    table, options, array = [1.0, 2.0, 3.0], {"a": 4.0}, np.array([5.0, 6.0, 7.0], np.float32)

    def make():
        @wp.kernel
        def k(x: wp.array[float], y: wp.array[float]):
            i = wp.tid()
            y[i] = wp.static(table[1]) + wp.static(options["a"]) + array[2]

        return k

    held = [make()]
    assert result(held[0])[0] == 13.0
    table[1] = 20.0
    held.append(make())
    assert result(held[1])[0] == 31.0
    options["a"] = 40.0
    held.append(make())
    assert result(held[2])[0] == 67.0
    array[2] = 70.0
    held.append(make())
    assert result(held[3])[0] == 130.0
    table[1], options["a"], array[2] = 2.0, 4.0, 7.0
    assert make().found is held[0].found


def test_globals_and_attributes_that_change(monkeypatch):
    def make():
        @wp.kernel
        def k(x: wp.array[float], y: wp.array[float]):
            i = wp.tid()
            y[i] = x[i] * SCALE + Settings.gain

        return k

    held = [make()]
    assert result(held[0])[0] == 5.0
    monkeypatch.setitem(globals(), "SCALE", 10.0)
    held.append(make())
    assert result(held[1])[0] == 13.0
    monkeypatch.setattr(Settings, "gain", 30.0)
    held.append(make())
    assert result(held[2])[0] == 40.0
    assert make().found is held[2].found


def test_functions_made_again(lowered):
    def make(power, offset):
        @wp.func
        def inner(x: float):
            return x * offset

        @wp.func
        def f(x: float):
            y = inner(x)
            for _ in range(wp.static(power)):
                y = y * x
            return y

        @wp.kernel
        def k(x: wp.array[float], y: wp.array[float]):
            i = wp.tid()
            y[i] = f(x[i])

        return k

    held = [make(1, 2.0)]
    assert result(held[0]) == [2.0, 8.0, 18.0]
    count = len(lowered)
    held.append(make(1, 2.0))
    assert result(held[1]) == [2.0, 8.0, 18.0]
    assert len(lowered) == count
    assert result(make(1, 3.0)) == [3.0, 12.0, 27.0]
    assert result(make(2, 2.0)) == [2.0, 16.0, 54.0]


def test_functions_that_differ_in_their_rules():
    def make(slope):
        @wp.func
        def f(x: float):
            return x * x

        if slope is not None:

            @wp.func_grad(f)
            def adj_f(x: float, adj_ret: float):
                wp.adjoint[x] += slope * adj_ret

        @wp.kernel
        def k(x: wp.array[float], y: wp.array[float]):
            i = wp.tid()
            y[i] = f(x[i])

        return k

    def slope_of(kernel):
        x, y = wp.array([3.0], dtype=float, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(kernel, 1, [x, y])
        tape.backward(grads={y: wp.ones(1, dtype=float)})
        return x.grad.numpy().tolist()

    held = [make(None), make(100.0), make(7.0)]
    assert [slope_of(k) for k in held] == [[6.0], [100.0], [7.0]]
    held += [make(None), make(100.0), make(7.0)]
    assert [slope_of(k) for k in held[3:]] == [[6.0], [100.0], [7.0]]
    assert held[1].found is held[4].found


def test_a_rule_that_comes_after_the_code_is_refused():
    def make():
        @wp.func
        def f(x: float):
            return x * x

        @wp.kernel
        def k(x: wp.array[float], y: wp.array[float]):
            i = wp.tid()
            y[i] = f(x[i])

        return f, k

    _, first = make()
    result(first)
    f, again = make()
    result(again)
    with pytest.raises(wp.KernelError, match="was defined before this rule"):

        @wp.func_grad(f)
        def adj_f(x: float, adj_ret: float):
            wp.adjoint[x] += adj_ret


def test_structs_of_one_name():
    def make(names):
        text = "@wp.struct\nclass S:\n" + "".join(f"    {name}: float\n" for name in names)
        file = f"<struct of {names}>"
        linecache.cache[file] = (1, None, text.splitlines(True), file)
        scope = {"wp": wp, "__name__": __name__}
        exec(compile(text, file, "exec"), scope)
        S = scope["S"]

        @wp.kernel
        def k(x: wp.array[float], y: wp.array[float], s: S):
            i = wp.tid()
            y[i] = x[i] * s.a + s.b

        s = S()
        s.a, s.b = 2.0, 5.0
        return k, s

    held = [make("ab"), make("ba"), make("acb")]
    assert [result(k, s)[0] for k, s in held] == [7.0, 7.0, 7.0]


def test_constants_of_a_class_that_change():
    @wp.struct
    class S:
        a: float
        factor = 2.0

    def make():
        @wp.kernel
        def k(x: wp.array[float], y: wp.array[float], s: S):
            i = wp.tid()
            y[i] = x[i] * s.factor + s.a

        return k

    s = S()
    s.a = 1.0
    held = [make()]
    assert result(held[0], s)[0] == 3.0
    held.append(make())
    assert result(held[1], s)[0] == 3.0
    assert held[1].found is held[0].found
    S.factor = 20.0
    held.append(make())
    assert result(held[2], s)[0] == 21.0


def test_names_that_come_later(monkeypatch):
    def make():
        @wp.kernel
        def k(x: wp.array[float], y: wp.array[float]):
            i = wp.tid()
            y[i] = x[i] * LATER  # noqa: F821

        return k

    held = [make()]
    monkeypatch.setitem(globals(), "LATER", 3.0)
    assert result(held[0])[0] == 3.0
    held.append(make())
    assert result(held[1])[0] == 3.0
    held.append(make())
    monkeypatch.setitem(globals(), "LATER", 4.0)
    assert result(held[2])[0] == 3.0  # as it was defined
    held.append(make())
    assert result(held[3])[0] == 4.0


def test_static_expressions_that_python_evaluates_late():
    values = {"v": 1.0}

    def from_outside(j):
        return values["v"] * j

    def make():
        @wp.kernel
        def k(x: wp.array[float], y: wp.array[float]):
            i = wp.tid()
            s = 0.0
            for j in range(3):
                s += wp.static(from_outside(j))
            y[i] = s

        return k

    held = [make()]
    assert result(held[0])[0] == 3.0
    values["v"] = 10.0
    held.append(make())
    assert result(held[1])[0] == 30.0


def test_operators_of_users_that_come_later(monkeypatch):
    @wp.struct
    class P:
        v: float

    def make():
        @wp.kernel
        def k(x: wp.array[float], y: wp.array[float]):
            i = wp.tid()
            p = P(x[i])
            q = p + p
            y[i] = q.v

        return k

    @wp.func
    def add(a: P, b: P) -> P:
        return P(a.v + b.v)

    first = add

    @wp.func
    def add(a: P, b: P) -> P:
        return P(a.v * 100.0)

    monkeypatch.setitem(globals(), "add", first)
    held = [make()]
    assert result(held[0])[0] == 2.0
    monkeypatch.setitem(globals(), "add", add)
    held.append(make())
    assert result(held[1])[0] == 100.0


def test_options_of_one_text():
    def make(**options):
        @wp.kernel(**options)
        def k(x: wp.array[float], y: wp.array[float]):
            i = wp.tid()
            s = 0.0
            for j in range(6):
                s += x[i] * float(j)
            y[i] = s

        return k

    held = [make(), make(module_options={"max_unroll": 2}), make(enable_backward=False), make()]
    assert held[0].found is held[3].found
    assert len({id(k.found) for k in held}) == 3
    assert [result(k)[0] for k in held] == [15.0] * 4


def test_defaults_and_annotations():
    def make(type_, value):
        @wp.kernel
        def k(x: wp.array[float], y: wp.array[float], a: type_ = value):
            i = wp.tid()
            y[i] = x[i] + float(a / type_(2))

        return k

    held = [make(int, 3), make(float, 3.0), make(float, 5.0)]
    assert [result(k)[0] for k in held] == [2.0, 2.5, 3.5]
    held += [make(int, 3), make(float, 5.0)]
    assert held[3].found is held[0].found
    assert held[4].found is held[2].found
    assert [result(k)[0] for k in held[3:]] == [2.0, 3.5]
