"""The CPU handler: images, the loader, how launches are cut, and that launches cannot deadlock."""

import ctypes
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from native.frames import EXECUTE, INSTANTIATE, Refused, Runtime

from jaxwarp.codegen.abi import MERGED
from jaxwarp.launches import image
from jaxwarp.native import library

NATIVE = Path(__file__).parents[1] / "native"
LOADER = ctypes.CFUNCTYPE(
    ctypes.c_void_p,
    *(ctypes.c_void_p, ctypes.c_int64, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64),
)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    path = tmp_path_factory.mktemp("kernels") / "kernels.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", NATIVE / "kernels.c", "-o", path], check=True)
    return ctypes.CDLL(str(path))


class Cpu(Runtime):
    """The runtime with a loader whose "machine code" is that of kernels.c, and that fails for payloads b"bad..."."""

    def __init__(self, kernels, copy, **options):
        super().__init__(library.find_library(), copy, **options)
        self.kernels, self.loads = kernels, []
        self.callback = LOADER(self._load)
        self.metadata("cpu_instantiate")
        self.library.jaxwarp_set_loader(self.callback)

    def _load(self, payload, size, digest, symbol, error, capacity):
        text = ctypes.string_at(payload, size)
        self.loads.append((text, digest.decode(), symbol.decode()))
        if text.startswith(b"bad"):
            reason = text[3:] * capacity
            ctypes.memmove(error, reason[: capacity - 1] + b"\0", min(len(reason), capacity - 1) + 1)
            return None
        return ctypes.cast(getattr(self.kernels, symbol.decode()), ctypes.c_void_p).value

    def instantiate(self, context=1, **changes):
        self.call("cpu_instantiate", INSTANTIATE, context, attributes(**changes))

    def execute(self, operands=(), results=(), context=1):
        as_buffers = [[(str(x.dtype), x.shape, x.ctypes.data) for x in arrays] for arrays in (operands, results)]
        self.call("cpu_execute", EXECUTE, context, {}, *as_buffers)

    def count(self, shape, grain, **cut):
        """Launches `count` over a grid of `shape`; returns the counts, checked to be one each, and the rectangles."""
        rank = len(shape)
        self.instantiate(
            ranks=[rank], grid=[-1] * rank, grid_from=[x for axis in range(rank) for x in (0, axis)],
            geometry=[-1, rank - 1], grain=grain, **cut,
        )  # fmt: skip
        result = np.full(shape, 77, np.int32)
        before = ctypes.c_int64.in_dll(self.kernels, "rectangle_count").value
        self.execute(results=[result])
        after = ctypes.c_int64.in_dll(self.kernels, "rectangle_count").value
        log = np.ctypeslib.as_array((ctypes.c_int64 * 4 * (1 << 14)).in_dll(self.kernels, "rectangles"))
        np.testing.assert_array_equal(result, 1)
        return log[np.arange(before, after) % (1 << 14)].copy()


@pytest.fixture
def cpu(kernels, tmp_path):
    return Cpu(kernels, tmp_path / "copy.so")


def attributes(**changes):
    """`count` over a 2-D grid, taken from its only buffer, a result."""
    values = {
        "name": b"count things",
        "symbol": b"count",
        "image": image.pack_image(image.CPU, b"code"),
        "buffers": [0],
        "ranks": [2],
        "grid": [-1, -1],
        "grid_from": [0, 0, 0, 1],
        "geometry": [-1, 1],
        "zero": [0],
        "grain": 1024,
    }
    return {name: value for name, value in (values | changes).items() if value is not None}


# What a malformed attribute is told. Everything is prefixed with the kernel's name.
MALFORMED = [
    ({"symbol": None}, "attribute 'symbol' is missing"),
    ({"symbol": 3}, "attribute 'symbol' is not a string"),
    ({"image": [1, 2]}, "attribute 'image' is not a string"),
    ({"grain": 1.5}, "attribute 'grain' is not an int64"),
    ({"grain": 0}, "attribute 'grain' is out of range: 0"),
    ({"alone": 0}, "attribute 'alone' is out of range: 0"),
    ({"pieces": 0}, "attribute 'pieces' is out of range: 0"),
    ({"pieces": 2**17}, "attribute 'pieces' is out of range: 131072"),
    ({"together": 0}, "attribute 'together' is out of range: 0"),
    ({"pieces": 2.0}, "attribute 'pieces' is not an int64"),
    ({"buffers": 3}, "attribute 'buffers' is not an array of int64"),
    ({"buffers": [1.0]}, "attribute 'buffers' is not an array of int64"),
    ({"buffers": [-1]}, "attribute 'buffers' has an entry out of range: -1"),
    ({"ranks": [2, 2]}, "attribute 'ranks' has 2 entries where 1 are expected"),
    ({"zero": [1]}, "attribute 'zero' has an entry out of range: 1"),
    ({"zero": [-1]}, "attribute 'zero' has an entry out of range: -1"),
    ({"grid": [], "grid_from": []}, "attribute 'grid' is empty"),
    ({"grid": [-2, 1]}, "attribute 'grid' has an entry out of range: -2"),
    ({"grid_from": [0, 0]}, "attribute 'grid_from' has 2 entries where 4 are expected"),
    ({"grid": [5, -1]}, "attributes 'grid' and 'grid_from' disagree about axis 0"),
    ({"grid_from": [0, 0, -1, -1]}, "attributes 'grid' and 'grid_from' disagree about axis 1"),
    ({"geometry": [0]}, "attribute 'geometry' has an odd number of entries"),
    ({"geometry": [0, 2]}, "attribute 'geometry' names axis 2 of parameter 0, which does not exist"),
    ({"geometry": [0, MERGED + 1]}, "attribute 'geometry' names axis 65537 of parameter 0, which does not exist"),
    ({"geometry": [1, 0]}, "attribute 'geometry' names axis 0 of parameter 1, which does not exist"),
    ({"geometry": [-1, 2]}, "attribute 'geometry' names axis 2 of parameter -1, which does not exist"),
    ({"geometry": [-1, -1]}, "attribute 'geometry' names axis -1 of parameter -1, which does not exist"),
]


@pytest.mark.parametrize(("changes", "reason"), MALFORMED)
def test_malformed_attributes_are_refused(cpu, changes, reason):
    with pytest.raises(Refused) as refused:
        cpu.instantiate(**changes)
    assert str(refused.value) == f"jaxwarp: kernel 'count things': {reason}"
    assert not cpu.loads


def test_a_launch_without_a_name_is_refused(cpu):
    with pytest.raises(Refused, match=r"^jaxwarp: attribute 'name' is missing$"):
        cpu.instantiate(name=None)


@pytest.mark.parametrize("name", attributes())
def test_attributes_that_are_not_those_that_were_sealed_are_refused(cpu, name):
    """An extent, say, that is as good as any other, but for which the code was not made."""
    whole = image.sealed(attributes())
    cpu.instantiate(**whole)
    loads = len(cpu.loads)
    value = whole[name]
    other = {bytes: lambda: value + b"x", int: lambda: value + 1, list: lambda: [*value, 0]}[type(value)]()
    for damaged in ({**whole, name: other}, {**whole, name: None}, {**whole, name: None, name + "s": value}):
        with pytest.raises(Refused, match=r"are damaged \(seal mismatch\)|is damaged \(length mismatch\)"):
            cpu.instantiate(**damaged)
    assert len(cpu.loads) == loads


def test_a_call_without_a_seal_is_refused(cpu):
    cpu.seals = False
    with pytest.raises(Refused, match=r"^jaxwarp: attribute 'seal' is missing$"):
        cpu.instantiate()


def test_damaged_images_never_reach_the_loader(cpu):
    good = image.pack_image(image.CPU, b"code of a kernel")
    damaged = [good[:cut] for cut in range(len(good))] + [good + b"x"]
    damaged += [good[:i] + bytes([good[i] ^ 1]) + good[i + 1 :] for i in range(len(good))]
    for bad in damaged:
        with pytest.raises(Refused, match=r"^jaxwarp: kernel 'count things': the code image "):
            cpu.instantiate(image=bad)
        with pytest.raises(ValueError, match=r"the code image|kind"):
            image.unpack_image(bad)
    assert not cpu.loads
    with pytest.raises(Refused, match="of kind 2, this platform needs kind 1"):
        cpu.instantiate(image=image.pack_image(image.CUDA, b"code"))


@hypothesis.given(st.binary(max_size=300))
def test_images_round_trip(payload):
    assert image.unpack_image(image.pack_image(image.CUDA, payload)) == (image.CUDA, payload)


@pytest.mark.parametrize("size", [0, 1, 55, 56, 63, 64, 65, 119, 120, 1000])
def test_digest_is_sha256_at_every_padding(cpu, size):
    cpu.instantiate(image=image.pack_image(image.CPU, bytes(range(256)) * 4 if size == 1000 else b"x" * size))


@hypothesis.given(st.lists(st.tuples(st.sampled_from([image.CUBIN, image.PTX]), st.integers(50, 130), st.binary())))
def test_cuda_payloads_round_trip(entries):
    if not entries:
        with pytest.raises(ValueError, match="at least one"):
            image.pack_cuda_payload([])
        return
    payload = image.pack_cuda_payload([image.Entry(*entry) for entry in entries])
    assert image.unpack_cuda_payload(payload) == entries
    with pytest.raises(ValueError, match="shorter than its table"):
        image.unpack_cuda_payload(payload[: 7 + 24 * len(entries)])


def test_the_loader_runs_once_for_equal_images(cpu):
    for context in range(3):
        cpu.instantiate(context=context)
    cpu.instantiate(context=3, symbol=b"tell_geometry")
    cpu.instantiate(context=4, image=image.pack_image(image.CPU, b"other code"))
    digests = [image.pack_image(image.CPU, code)[24:56].hex() for code in (b"code", b"other code")]
    assert cpu.loads == [
        (b"code", digests[0], "count"),
        (b"code", digests[0], "tell_geometry"),
        (b"other code", digests[1], "count"),
    ]
    assert [cpu.counter(name) for name in ("instantiations", "images_loaded", "live_states")] == [5, 2, 5]
    cpu.destroy(4)
    assert cpu.counter("live_states") == 4
    assert cpu.counter("no such counter") == -1


def test_loader_errors_are_the_error_and_may_be_overcome(cpu):
    for text, expected in [(b"bad?", "?"), (b"bad", "the loader gave no reason")]:
        with pytest.raises(Refused, match="'count things': the code image could not be loaded: ") as refused:
            cpu.instantiate(image=image.pack_image(image.CPU, text))
        assert str(refused.value).rstrip("?").endswith(expected.rstrip("?"))
    cpu.library.jaxwarp_set_loader(None)
    with pytest.raises(Refused, match="there is no loader for CPU code yet"):
        cpu.instantiate()
    cpu.library.jaxwarp_set_loader(cpu.callback)
    cpu.instantiate()


class TestLoadOnce:
    """The Python side of loading."""

    def test_threads_that_ask_together_load_once(self):
        calls = []
        gate = threading.Barrier(8)
        started = threading.Event()

        def load(payload, digest, symbol):
            calls.append((payload, digest, symbol))
            started.wait(5)
            return 42

        once = library.LoadOnce(load, ignore)
        answers = []

        def ask():
            gate.wait()
            started.set()
            answers.append(once(lambda: b"code", "digest", "symbol"))

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [42] * 8
        assert calls == [(b"code", "digest", "symbol")]

    def test_a_failure_is_not_remembered(self):
        answers = [ValueError("full disk"), 42]

        def load(*_):
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        once = library.LoadOnce(load, ignore)
        with pytest.raises(ValueError, match="full disk"):
            once(lambda: b"", "digest", "symbol")
        assert once(lambda: b"", "digest", "symbol") == 42

    def test_what_all_have_put_down_is_unloaded(self):
        unloaded, addresses = [], iter((42, 43))
        once = library.LoadOnce(lambda *_: next(addresses), unloaded.append)
        assert [once(lambda: b"", "digest", "symbol") for _ in range(2)] == [42, 42]
        once.put_down([42, 7])  # 7 is not this loader's
        assert not unloaded
        once.put_down([42])
        assert unloaded == [42]
        assert once(lambda: b"", "digest", "symbol") == 43


def ignore(_):
    pass


def check_rectangles(rectangles, shape, grain, threads):
    rows, columns = int(np.prod(shape[:-1])), shape[-1]
    areas = (rectangles[:, 1] - rectangles[:, 0]) * (rectangles[:, 3] - rectangles[:, 2])
    assert areas.sum() == rows * columns
    if len(rectangles) > 1:
        assert areas.min() >= grain // 4
        assert rows * columns >= 2 * grain
        assert len(rectangles) <= 2 * 16 * threads
    if rows == 1 or len(rectangles) < rows:  # cut along one axis, not into single rows
        assert len(rectangles) % threads == 0 or len(rectangles) < threads  # no thread has more to do than another
    cuts = rectangles[:, 2:].ravel()
    assert np.all((cuts % 64 == 0) | (cuts == columns))


@pytest.mark.parametrize("pool", ["threads", "lazy", "refuse"])
def test_every_thread_runs_once_however_the_launch_is_cut(kernels, tmp_path, pool):
    """Also when the pool never gets to run what it was given: a launch does not wait for queued work."""
    cpu = Cpu(kernels, tmp_path / "copy.so", pool=pool)
    rng = np.random.default_rng(0)
    shapes = [(1,), (64,), (5000,), (3, 4000), (17, 300), (300, 17), (2, 3, 5, 700), (4096, 1), (1, 1, 1)]
    shapes += [(*rng.integers(1, 9, rng.integers(1, 5)), int(rng.integers(1, 3000))) for _ in range(40)]
    pieces = []
    for shape in shapes:
        cpu.threads = int(rng.integers(1, 9))
        grain = int(rng.choice([1, 64, 500, 1024]))
        rectangles = cpu.count(shape, grain)
        check_rectangles(rectangles, shape, grain, cpu.threads)
        pieces.append(len(rectangles))
    assert max(pieces) > 8
    # Tasks that start after the launch is over find nothing to do, and free what they hold.
    before = ctypes.c_int64.in_dll(kernels, "rectangle_count").value
    assert bool(cpu.waiting) == (pool == "lazy")
    for task, data in cpu.waiting:
        task(data)
    assert ctypes.c_int64.in_dll(kernels, "rectangle_count").value == before


def test_launches_of_less_than_two_grains_are_not_cut(cpu):
    assert len(cpu.count((32, 32), 1024)) == 1
    assert len(cpu.count((1, 2000), 1024)) == 1
    assert len(cpu.count((1, 2048), 1024)) == 8
    assert len(cpu.count((32, 128), 1024)) == 16


def test_few_threads_may_leave_a_launch_whole(cpu):
    """What costs more when it is cut, they do not cut; who has more threads does."""
    for threads, whole in ((1, True), (2, True), (3, True), (4, False)):
        cpu.threads = threads
        assert (len(cpu.count((300, 40), 64, alone=3)) == 1) == whole


def test_pieces_for_each_thread(cpu):
    cpu.threads = 3
    assert [len(cpu.count((3000, 40), 64, **more)) for more in ({}, {"pieces": 2}, {"pieces": 1})] == [48, 6, 3]


def test_rows_that_belong_together_are_not_cut_apart(cpu):
    """But for the rest of them, and where there are fewer."""
    for threads, rows, columns in ((2, 384, 64), (3, 100, 1000), (2, 13, 4000), (2, 6, 4000), (2, 5, 4000), (4, 4, 64)):
        cpu.threads = threads
        rectangles = cpu.count((rows, columns), 64, together=6)
        check_rectangles(rectangles, (rows, columns), 64, threads)
        assert len(rectangles) > 1
        if rows >= 6:
            assert set(rectangles[:, :2].ravel() % 6) <= {0, rows % 6}
            assert set(rectangles[rectangles[:, 1] % 6 != 0, 1]) <= {rows}


def test_large_buffers_are_cleared_in_pieces(cpu):
    cpu.count((3, 5_000_001), 1 << 20)


def test_empty_launches_clear_and_run_nothing(cpu):
    cpu.instantiate(grid=[0, 5], grid_from=[-1] * 4, grain=1)
    result = np.full((3, 4), 7, np.int32)
    cpu.execute(results=[result])
    np.testing.assert_array_equal(result, 0)
    cpu.instantiate(grain=1)
    cpu.execute(results=[np.zeros((0, 4), np.int32)])


def test_geometry_values_come_in_order(cpu):
    cpu.instantiate(
        symbol=b"tell_geometry", buffers=[2, 0, 1], ranks=[1, 3, 0], zero=[],
        grid=[1, -1], grid_from=[-1, -1, 2, 0], geometry=[1, 2, -1, 1, 1, 0, 0, 0, -1, 0, 1, MERGED + 1, 1, 2 * MERGED],
    )  # fmt: skip
    result = np.zeros(7, np.int32)
    cpu.execute([np.zeros((6, 7, 8), np.int8), np.zeros((), np.float32)], [result])
    np.testing.assert_array_equal(result, [8, 7, 6, 7, 1, 56, 336])


def test_many_buffers(cpu):
    count = 50
    cpu.instantiate(
        symbol=b"check_many", buffers=[count, *range(count)], ranks=[0] + [1] * count,
        grid=[1], grid_from=[-1, -1], geometry=[1, 0] * 40, zero=[0],
    )  # fmt: skip
    right = np.array(9, np.int32)
    operands = [np.full(count if i == 0 else 1, i + 1, np.int32) for i in range(count)]
    cpu.execute(operands, [right])
    assert right == count


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"buffers": [1]}, "buffer 1 does not exist: the call has 1 buffers"),
        ({"ranks": [3]}, "parameter 0 has rank 2, the kernel was compiled for rank 3"),
        ({"grid_from": [0, 0, 0, 2]}, "attribute 'grid_from' names axis 2 of a buffer of rank 2"),
        ({"grid_from": [0, 0, 4, 0]}, "buffer 4 does not exist: the call has 1 buffers"),
        ({"grid": [2**32, 2**32], "grid_from": [-1] * 4}, "the launch has more than 2^63 - 1 threads"),
        ({"grid": [2**32, 2**31, 2], "grid_from": [-1] * 6}, "the launch has more than 2^63 - 1 threads"),
    ],
)
def test_calls_that_do_not_fit_the_plan_are_refused(cpu, changes, reason):
    cpu.instantiate(**changes)
    with pytest.raises(Refused) as refused:
        cpu.execute(results=[np.zeros((3, 4), np.int32)])
    assert str(refused.value) == f"jaxwarp: kernel 'count things': {reason}"


@pytest.mark.parametrize(("offset", "extents"), [(2**63 - 4, [1]), (0, [2**40, 2**40]), (4, [6]), (0, [2**61])])
def test_views_beyond_their_buffers_are_refused(cpu, offset, extents):
    """Also where the sum or the product that says so is beyond 64 bits."""
    cpu.metadata("cpu_program_instantiate")
    views = {"views": [0, offset, len(extents), *extents], "ops": [2, 4, 7, 0]}
    cpu.call("cpu_program_instantiate", INSTANTIATE, 1, {"name": b"fills", "kernels": 0, **views})
    out = np.zeros(6, np.int32)
    with pytest.raises(Refused, match=r"view 0 reaches beyond buffer 0|a buffer has more than 2\^63 - 1 bytes"):
        cpu.call("cpu_program_execute", EXECUTE, 1, {}, [], [("int32", out.shape, out.ctypes.data)])


def test_inside_jax():
    """Splitting, concurrency, chains that would deadlock a waiting handler, errors: on XLA's own pool."""
    environment = os.environ | {"PJRT_NPROC": "4", "JAX_PLATFORMS": "cpu"}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), environment.get("PYTHONPATH", "")])
    subprocess.run([sys.executable, NATIVE / "jax_launches.py"], env=environment, check=True, timeout=300)
