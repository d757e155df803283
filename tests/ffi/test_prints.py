"""`print` and `printf` in kernels: what they write, once for each thread that comes there, in whole lines."""

import collections
import ctypes
import re
import subprocess
import sys

import hostcuda
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from language import define

import jaxwarp as wp
from jaxwarp.codegen.cpu import run_cpu
from jaxwarp.ffi.programs.jax_callable import GraphMode
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.verify import verify
from jaxwarp.passes.pipeline import prepare

ENGINES = {
    "interpreter": interpret,
    "one lane": lambda kernel, grid, buffers: run_cpu(kernel, grid, buffers, width=1),
    "lanes": lambda kernel, grid, buffers: run_cpu(kernel, grid, buffers, width=8),
    "CUDA text": hostcuda.run_host,
}


@pytest.fixture
def printed(capfd):
    def read():
        ctypes.CDLL(None).fflush(None)
        sys.stdout.flush()
        return capfd.readouterr().out

    return read


@wp.struct
class State:
    mass: float
    force: wp.vec3
    count: wp.uint8


def kernel_of(statement, **types):
    """A kernel of arguments a, b, ... of types, and of x and y, arrays of floats."""
    names = ", ".join(f"{n}: T{n}" for n in types)
    lines = "\n    ".join(statement.splitlines())
    source = f"@wp.kernel\ndef k({names}{', ' if types else ''}y: wp.array[float]):\n    {lines}\n    y[0] = 1.0\n"
    return define(source, State=State, **{f"T{n}": t for n, t in types.items()})["k"]


def outputs(statement, printed, types, values):
    """What one thread prints on each engine."""
    kernel = prepare(verify(kernel_of(statement, **types).specialize()))
    dtypes = [p.dtype.numpy for p in kernel.params]
    found = {}
    for name, run in ENGINES.items():
        buffers = [np.asarray(v, d) for v, d in zip([*values, np.zeros(1)], dtypes, strict=True)]
        run(kernel, (1,), buffers)
        found[name] = printed()
    return found


NAN, INF = float("nan"), float("inf")
CASES = [
    ("print(1.0)", {}, [], "1\n"),
    ("print(3)", {}, [], "3\n"),
    ("print(True)", {}, [], "True\n"),
    ("print()", {}, [], "\n"),
    ("print('a % b {0} {} \\\\ \"q\" %d ?? é ∂\\t\\x02\\x03\\x1b[0m')", {}, [],
     'a % b {0} {} \\ "q" %d ?? é ∂\t\x02\x03\x1b[0m\n'),
    ("wp.print(a)", {"a": float}, [0.1], "0.1\n"),
    ("print(a)", {"a": float}, [NAN], "nan\n"),
    ("print(a, -a, a - a)", {"a": float}, [INF], "inf -inf nan\n"),
    ("print(a)", {"a": float}, [1e-45], "1.4013e-45\n"),
    ("print(a)", {"a": wp.float64}, [1.7976931348623157e308], "1.79769e+308\n"),
    ("print(-a)", {"a": float}, [0.0], "-0\n"),
    ("print(a)", {"a": wp.float16}, [65504], "65504\n"),
    ("print(a)", {"a": wp.bfloat16}, [0.1], "0.100098\n"),
    ("print(a)", {"a": wp.bool}, [False], "False\n"),
    *(("print(a, b)", {"a": t, "b": t}, [np.iinfo(t.numpy).min, np.iinfo(t.numpy).max],
       f"{np.iinfo(t.numpy).min} {np.iinfo(t.numpy).max}\n")
      for t in (wp.int8, wp.int16, wp.int32, wp.int64, wp.uint8, wp.uint16, wp.uint32, wp.uint64)),
    ("print('x', a, b, sep=', ', end=';')", {"a": int, "b": float}, [1, 2.5], "x, 1, 2.5;"),
    ("print(wp.vec3(a, 2.5, -1.0))", {"a": float}, [1.0], "1 2.5 -1 \n"),
    ("print(wp.vec2(a, 2.5), 'x')", {"a": float}, [1.0], "1 2.5 x\n"),
    ("print(wp.mat22(a, 2.0, 3.0, 4.0))", {"a": float}, [1.0], "1 2 \n3 4 \n"),
    ("print(wp.quat(a, 0.0, 0.0, 1.0))", {"a": float}, [0.5], "0.5 0 0 1\n"),
    ("print(wp.transform_identity())", {}, [], "(0 0 0) (0 0 0 1)\n"),
    ("print(wp.spatial_vector(1.0, a, 3.0, 4.0, 5.0, 6.0))", {"a": float}, [2.0], "1 2 3 4 5 6 \n"),
    ("s = State()\ns.mass = a\nprint(s)", {"a": float}, [2.0], "State(mass=2, force=(0 0 0), count=0)\n"),
    ("print(y.shape, (a,), (1, 2.5))", {"a": int}, [7], "(1,) (7,) (1, 2.5)\n"),
    ("print(f'{a} {a:6.2f}|{a:<8.1e}|{a:+g}|{3:04d} {255:x}{{}}')", {"a": float}, [1.5],
     "1.5   1.50|1.5e+00 |+1.5|0003 ff{}\n"),
    ("print(f'{wp.vec2(a, 2.0):.3f}')", {"a": float}, [1.5], "1.500 2.000\n"),
    ("wp.printf('%d|%5d|%-5d|%+d|%05d|% d', a, a, a, a, a, a)", {"a": int}, [42], "42|   42|42   |+42|00042| 42"),
    ("wp.printf('%i %u %x %X %#x %o', a, a, a, a, a, a)", {"a": int}, [-1],
     "-1 4294967295 ffffffff FFFFFFFF 0xffffffff 37777777777"),
    ("wp.printf('%d %u %lld %ld %x', a, a, a, a, a)", {"a": wp.int64}, [-(2**63)],
     f"{-2**63} {2**63} {-2**63} {-2**63} 8000000000000000"),
    ("wp.printf('%hhd %x %llu', a, a, a)", {"a": wp.int8}, [-1], "-1 ffffffff 4294967295"),
    ("wp.printf('%d %lu', a, a)", {"a": wp.uint64}, [2**64 - 1], f"{2**64 - 1} {2**64 - 1}"),
    ("wp.printf('%f %.3f %10.2e|%-10g|%G|%lf|%%', a, a, a, a, a, a)", {"a": float}, [1.5],
     "1.500000 1.500   1.50e+00|1.5       |1.5|1.500000|%"),
    ("wp.printf('%05g %5f %05f', a, a, -a)", {"a": float}, [INF], "  inf   inf  -inf"),
    ("wp.printf('%c%3c %s %5s|%d\\n', a, a, 'text', 'ab', a > 3)", {"a": int}, [65], "A  A text    ab|1\n"),
    ("wp.printf('no values 100%%\\n')", {}, [], "no values 100%\n"),
    ("wp.printf('%.300f', a)", {"a": float}, [0.5], "0.5" + "0" * 299),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "types", "values", "expected"), CASES)
def test_what_is_written(statement, types, values, expected, printed):
    assert outputs(statement, printed, types, values) == dict.fromkeys(ENGINES, expected)


def test_many_values_in_one_call(printed):
    values = ", ".join(f"a + {i}" for i in range(40))
    places, given = "%d\\n" * 70, ", ".join(["a"] * 70)
    matrix = f"print('m', wp.spatial_matrix({', '.join(['float(a)'] * 36)}))"
    kernel = f"print({values})\n{matrix}\nwp.printf('{places}', {given})"
    expected = " ".join(str(i) for i in range(1, 41)) + "\nm " + "\n".join(["1 1 1 1 1 1"] * 6) + "\n" + "1\n" * 70
    assert outputs(kernel, printed, {"a": int}, [1]) == dict.fromkeys(ENGINES, expected)


@wp.func
def noisy(i: int, k: int):
    if k % 2 == 1:
        print("odd", i, k)
    return k + 1


@wp.kernel
def wandering(x: wp.array[int], y: wp.array[int]):
    i = wp.tid()
    k = 0
    while noisy(i, k) < x[i]:
        k += 1
        if k == 7:
            wp.printf("%d leaves\n", i)
            break
        if x[i] == 3:
            continue
        print("go on", i, k)
    for j in range(x[i] % 3):
        print(f"for {i} {j}")
    if x[i] > 2:
        if x[i] > 5:
            print("large", i)
        else:
            print("middle", i)
    else:
        print("small", i)
        return
    print("end", i)
    y[0] = k


def wandered(x):
    lines = []
    for i, n in enumerate(x):
        k = 0
        while True:
            if k % 2 == 1:
                lines.append(f"odd {i} {k}")
            if k + 1 >= n:
                break
            k += 1
            if k == 7:
                lines.append(f"{i} leaves")
                break
            if n == 3:
                continue
            lines.append(f"go on {i} {k}")
        lines += [f"for {i} {j}" for j in range(n % 3)]
        lines.append(f"large {i}" if n > 5 else f"middle {i}" if n > 2 else f"small {i}")
        lines += [f"end {i}"] if n > 2 else []
    return lines


def by_thread(lines):
    """The lines of each thread, in their order."""
    found = collections.defaultdict(list)
    for line in lines:
        found[re.search(r"\d+", line)[0]].append(line)
    return found


X = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 3, 1, 0, 40, 2], np.int32)


@pytest.mark.parametrize("engine", ENGINES)
def test_control_flow(engine, printed):
    """Each thread prints what it would by itself, in its order."""
    kernel = prepare(verify(wandering.specialize()))
    ENGINES[engine](kernel, (len(X),), [X, np.zeros(1, np.int32)])
    assert by_thread(printed().splitlines()) == by_thread(wandered(X))


@wp.kernel
def told(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * x[i]
    print("thread", i, "x", x[i])


@wp.kernel
def table(x: wp.array2d[float], y: wp.array2d[float]):
    i, j = wp.tid()
    s = float(0.0)  # noqa: UP018
    for k in range(x.shape[1]):
        s += x[i, k] * x[k, j]
    print("sum", i, j, s)
    y[i, j] = s


def lines_of(x):
    return [f"thread {i} x {v:g}" for i, v in enumerate(np.asarray(x).reshape(-1))]


SMALL = jnp.array([1.0, 2.0, 3.0])


def called(x):
    return wp.jax_kernel(told)(x)[0]


def total(x):
    return called(x).sum()


def program(x: wp.array[float], y: wp.array[float]):
    wp.launch(told, x.shape[0], inputs=[x], outputs=[y])


def launched(x):
    y = wp.zeros(x.shape[0])
    wp.launch(told, x.shape[0], inputs=[wp.array(np.asarray(x), dtype=float)], outputs=[y])


def taped(x):
    a, y = wp.array(np.asarray(x), dtype=float, requires_grad=True), wp.zeros(3, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(told, 3, inputs=[a], outputs=[y])
    tape.backward(grads={y: wp.ones(3)})
    np.testing.assert_array_equal(a.grad.numpy(), 2.0 * np.asarray(x))


ONCE = {
    "launch": launched,
    "tape": taped,
    "jax_kernel": called,
    "jit": jax.jit(called),
    "unused": jax.jit(lambda x: (called(x), x)[1]),
    "grad": jax.grad(total),
    "jit of grad": jax.jit(jax.grad(total)),
    "value_and_grad": jax.jit(jax.value_and_grad(total)),
    "jvp": jax.jit(lambda x: jax.jvp(called, (x,), (x,))),
    "jacrev": jax.jit(jax.jacrev(called)),
    "hessian": jax.jit(jax.hessian(total)),
    "scan": jax.jit(lambda x: jax.lax.scan(lambda c, _: (called(c), None), x, None, length=1)),
    "cond": jax.jit(lambda x: jax.lax.cond(x[0] > 0, called, lambda x: x, x)),
    "callable": wp.jax_callable(program),
    "recorded": wp.jax_callable(program, graph_mode=GraphMode.WARP),
    "callback": wp.jax_callable(program, graph_mode=GraphMode.NONE),
    "interpret": lambda x: told.interpret(np.array(x), np.zeros(3, np.float32)),
}


@pytest.mark.parametrize("how", ONCE)
def test_it_is_printed_once(how, printed):
    for _ in range(2):
        jax.block_until_ready(ONCE[how](SMALL))
        assert sorted(printed().splitlines()) == lines_of(SMALL)


def test_batches_and_repetition(printed):
    batch = jnp.arange(6.0).reshape(2, 3)
    for f in (jax.vmap(called), jax.jit(jax.vmap(jax.grad(total)))):
        jax.block_until_ready(f(batch))
        lines = lines_of(batch[0]) + lines_of(batch[1])
        assert collections.Counter(printed().splitlines()) == collections.Counter(lines)
    jax.block_until_ready(jax.jit(jax.grad(jax.checkpoint(lambda x: jnp.sin(called(x)).sum())))(SMALL))
    assert set(printed().splitlines()) == set(lines_of(SMALL))
    jax.block_until_ready(jax.jit(lambda x: jax.lax.fori_loop(0, 4, lambda _, c: called(c) * 0.0 + c, x))(SMALL))
    assert collections.Counter(printed().splitlines()) == collections.Counter(lines_of(SMALL) * 4)


def test_exported_programs_and_cached_code_print_in_another_process(tmp_path):
    made = export.export(jax.jit(called), disabled_checks=wp.export_checks())(SMALL)
    (tmp_path / "program").write_bytes(made.serialize())
    code = f"""
import jax, jax.numpy as jnp, jaxwarp
call = jax.export.deserialize(open({str(tmp_path / "program")!r}, "rb").read()).call
jax.block_until_ready(call(jnp.array([1.0, 2.0, 3.0])))
"""
    for _ in range(2):  # the second time machine code comes from disk
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert sorted(done.stdout.splitlines()) == lines_of(SMALL)


@wp.kernel
def crowd(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i]
    print("thread", i, "of many prints", x[i], "and", wp.vec3(x[i], x[i], 1.0), i % 2 == 0)


def test_a_hundred_thousand_threads_print_whole_lines(tmp_path):
    count = 100_000
    code = f"""
import sys
sys.path.insert(0, {str(__file__.rpartition("/")[0])!r})
sys.path.insert(0, {str(__file__.rpartition("/")[0].rpartition("/")[0])!r})
import jax, jax.numpy as jnp
import jaxwarp as wp
from test_prints import crowd
jax.block_until_ready(jax.jit(lambda x: wp.jax_kernel(crowd)(x)[0])(jnp.arange({count}, dtype=jnp.float32)))
"""
    with (tmp_path / "out").open("w") as file:
        subprocess.run([sys.executable, "-c", code], stdout=file, check=True)
    line = "thread {0} of many prints {1:g} and {1:g} {1:g} 1 {2}"
    expected = {line.format(i, float(np.float32(i)), i % 2 == 0) for i in range(count)}
    lines = (tmp_path / "out").read_text().splitlines()
    assert len(lines) == count
    assert set(lines) == expected


def test_threads_that_store_to_one_element_and_rows_at_once(printed):
    """No thread is left out, and none is done for another."""
    kernel = define("@wp.kernel\ndef k(y: wp.array[int]):\n    i = wp.tid()\n    y[0] = i\n    print('t', i)\n")["k"]
    y = wp.zeros(1, dtype=int)
    wp.launch(kernel, 50, outputs=[y])
    assert sorted(printed().split("\n")[:-1]) == sorted(f"t {i}" for i in range(50))
    assert y.numpy()[0] == 49
    wp.launch(kernel, (5, 3), outputs=[y])
    assert collections.Counter(printed().splitlines()) == collections.Counter([f"t {i}" for i in range(5)] * 3)
    x = jnp.ones((20, 20))
    jax.block_until_ready(jax.jit(lambda x: wp.jax_kernel(table, launch_dims=(20, 20))(x)[0])(x))
    assert sorted(printed().splitlines()) == sorted(f"sum {i} {j} 20" for i in range(20) for j in range(20))


def test_debug_mode_and_assertions(printed):
    kernel = define(
        "@wp.kernel\ndef k(x: wp.array[float], y: wp.array[float]):\n    i = wp.tid()\n    print('before', i)\n"
        "    assert x[i] > 0.0\n    print('after', i)\n    y[i + int(x[i])] = 1.0\n"
    )["k"]
    for mode in ("release", "debug"):
        with pytest.raises(wp.CheckError, match=r"thread \(1,\): assertion failed"):
            wp.jax_kernel(kernel, mode=mode, output_dims=8)(jnp.array([1.0, -1.0, 1.0]))
        expected = ["after 0", "after 2", "before 0", "before 1", "before 2"]
        assert sorted(printed().splitlines()) == expected


REFUSED = [
    ("print(y)", "print: expected text, numbers, vectors, matrices or structs, got array[float32, 1]"),
    ("print(float)", "print: expected text, numbers, vectors, matrices or structs, got the type float32"),
    ("print(a, file=b)", "print: there is no argument file in kernels"),
    ("print(a, sep=b)", "print: sep must be text that is known before"),
    ("print(*y.shape)", "print: * is not part of it"),
    ("print(f'{a!r}')", "!r, !s and !a are not part of the kernel language"),
    ("print(f'{a:^8}')", "the format '^8' is not one that kernels have"),
    ("print(f'{a:{b}}')", "the format of a value must be known before the kernel runs"),
    ("print(f'{b:d}')", "the format d is for integers, got float32"),
    ("wp.printf(a)", "printf: the format must be text that is known before the kernel runs"),
    ("wp.printf()", "printf: expected a format and values for it"),
    ("wp.printf('%d')", "printf: the format has places for 1 value, got 0"),
    ("wp.printf('%d %d', a)", "printf: the format has places for 2 values, got 1"),
    ("wp.printf('100%', a)", "printf: % is no format that kernels have"),
    ("wp.printf('%n', a)", "printf: %n is no format that kernels have"),
    ("wp.printf('%*d', a)", "printf: %*d is no format that kernels have"),
    ("wp.printf('%f', a)", "printf: %f is not for int32"),
    ("wp.printf('%d', b)", "printf: %d is not for float32"),
    ("wp.printf('%s', a)", "printf: %s is for text that is known before the kernel runs"),
    ("wp.printf('%d', 'x')", "printf: %d is for a number, got text"),
    ("wp.printf('%hd', a)", "printf: %hd does not hold int32"),
    ("wp.printf('%g', wp.vec3())", "printf: %g is for a number, got vec3"),
    ("a = f'{a}'", "an f-string is not part of the kernel language"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "message"), REFUSED)
def test_what_is_refused(statement, message):
    with pytest.raises(wp.KernelError) as caught:
        kernel_of(statement, a=int, b=float).specialize()
    assert message in caught.value.message
    assert caught.value.loc.line == 3


def test_a_sharding_rule_is_refused():
    with pytest.raises(wp.KernelError, match="it prints, and has a sharding_rule"):
        wp.jax_kernel(told, sharding_rule="i -> i")(SMALL)


def test_gradients_in_kernels_print_what_the_function_prints(printed):
    @wp.func
    def square(v: float):
        print("v", v)
        return v * v

    @wp.kernel
    def k(x: wp.array[float], y: wp.array[float]):
        y[wp.tid()] = wp.grad(square)(x[wp.tid()])

    np.testing.assert_array_equal(wp.jax_kernel(k)(SMALL)[0], 2.0 * SMALL)
    assert sorted(printed().splitlines()) == ["v 1", "v 2", "v 3"]


@wp.kernel
def counts_the_positive(x: wp.array[float], count: wp.array[int]):
    i = wp.tid()
    assert x[i] > 0.0
    print("thread", i)
    wp.atomic_add(count, 0, 1)


def test_a_thread_that_has_failed_prints_nothing(printed):
    count = wp.zeros(1, dtype=int)
    with pytest.raises(wp.CheckError, match=r"thread \(1,\): assertion failed"):
        wp.launch(counts_the_positive, 3, [wp.array([1.0, -1.0, 2.0], dtype=float)], [count])
    assert sorted(printed().splitlines()) == ["thread 0", "thread 2"]
    assert count.list() == [2]
