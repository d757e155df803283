"""GPUs that are not there: a driver whose memory is the host's, and which runs the CUDA text of kernels on the host.

`libcuda.so.1` is built of fake_memory.c; it must be found when the process starts (`build`, `environment`).
"""

import ctypes
import hashlib
import itertools
import os
import shutil
import struct
import subprocess
import traceback
from ctypes import CFUNCTYPE, POINTER, c_int32, c_int64, c_long, c_uint, c_uint64, c_void_p, cast
from pathlib import Path

import hostcuda
from native import ptx

HERE = Path(__file__).parent
TESTS = HERE.parent


def build(folder):
    """Builds the driver in a folder."""
    compiler = shutil.which("cc")
    assert compiler is not None, "the driver needs a C compiler"
    command = [compiler, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", HERE / "fake_memory.c"]
    subprocess.run([*command, "-o", folder / "libcuda.so.1"], check=True)


def environment(folder):
    """That of a process that finds the driver of a folder."""
    paths = os.pathsep.join([str(folder), os.environ.get("LD_LIBRARY_PATH", "")]).rstrip(os.pathsep)
    made = os.environ | {"LD_LIBRARY_PATH": paths, "JAX_PLATFORMS": "cpu"}
    made["PYTHONPATH"] = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    return made


def cubin(*registers):
    """ELF with nothing but what registers kernels have."""
    info = b"".join(struct.pack("<BBHII", 4, 0x2F, 8, n, count) for n, count in enumerate(registers))
    info = struct.pack("<BBHII", 4, 0x11, 8, 1, 99) + struct.pack("<BBH", 3, 0x1B, 0x80) + info
    texts = b"\0.nv.info\0.shstrtab\0"
    header = b"\x7fELF".ljust(40, b"\0") + struct.pack("<Q", 64) + b"\0" * 10 + struct.pack("<HHH", 64, 3, 2)
    begin = 64 + 3 * 64
    rows = [(0, 0, 0), (1, begin, len(info)), (10, begin + len(info), len(texts))]
    sections = [struct.pack("<IIQQQQIIQQ", name, 1, 0, 0, at, size, 0, 0, 1, 0) for name, at, size in rows]
    return header + b"".join(sections) + info + texts


class Gpus:
    """The driver of this process, and its log.

    Args:
        is_lazy: what is put on a stream happens as late as it may.
    """

    def __init__(self, is_lazy=False):
        from jaxwarp.codegen import cuda
        from jaxwarp.launches import code, on_memory

        self.driver = ctypes.CDLL("libcuda.so.1")
        self.driver.fake_log.restype = self.driver.fake_text.restype = ctypes.c_char_p
        self.driver.fake_text.argtypes = [ctypes.c_void_p]
        self.driver.fake_set_condition.argtypes = [c_uint64, c_uint]
        self.registers = 32  # of every kernel
        self._kept, self._numbers, self._failed = {}, itertools.count(1), []
        self._codes, self._kernels, self._functions = {}, {}, {}
        self._loaded_since = []  # codes loaded since one was compiled for the host
        self._keep_hook = CFUNCTYPE(c_long, c_void_p, c_uint, c_uint, POINTER(c_void_p))(self._keep)
        self._now_hook = CFUNCTYPE(None, c_void_p, c_uint, c_uint, POINTER(c_void_p))(self._now)
        self._run_hook = CFUNCTYPE(None, c_long)(self._run)
        self.driver.fake_launched(self._now_hook)
        self.lazy(is_lazy)
        code.forget()  # nothing of earlier processes, and nothing for later ones
        self._code_for, self._load = cuda.code_for, on_memory._load
        cuda.code_for, code._machine_code, on_memory._load = self._made, self._machine_code, self._loaded

    def lazy(self, is_lazy):
        """Whether work waits until it is asked for."""
        self.driver.fake_lazy(int(is_lazy), self._keep_hook, self._run_hook)

    def _machine_code(self, code, gpus):
        """Stands for machine code: nothing here reads it, and NVRTC has tests of its own."""
        assert gpus.architectures == (90,)
        from jaxwarp.codegen.abi import CUBIN, Entry

        made = cubin(self.registers) + hashlib.sha256(code.source.encode()).digest()
        self._codes[made] = self._kernels[code.source], code
        return (Entry(CUBIN, 90, made),)

    def _made(self, kernel, *details):
        code = self._code_for(kernel, *details)
        self._kernels[code.source] = kernel
        return code

    def _loaded(self, made, binary, symbol):
        handle = self._load(made, binary, symbol)
        self._functions[handle] = self._codes[binary]
        self._loaded_since.append(self._codes[binary])
        return handle

    def _arguments(self, kernel, blocks, threads, parameters):
        """What the driver is given, as the driver reads it when it is called."""
        text = self.driver.fake_text(kernel)
        if text is not None:
            return text.decode(), ptx.given(text.decode(), parameters)
        ir, code = self._functions[kernel]
        count = len(ir.params)
        number = c_int32 if code.index_bits == 32 else c_int64
        addresses = [cast(parameters[i], POINTER(c_uint64))[0] for i in range(count)]
        numbers = [cast(parameters[count + i], POINTER(number))[0] for i in range(len(code.geometry) + 1)]
        return ir, code, addresses, numbers, blocks, threads

    def _keep(self, kernel, blocks, threads, parameters):
        number = next(self._numbers)
        self._kept[number] = self._arguments(kernel, blocks, threads, parameters)
        return number

    def _run(self, number):
        try:
            run, kept = hostcuda.launch_at, self._kept[number]
            if isinstance(kept[0], str):
                assert len(kept) == 2
                ptx.run(*kept, {"cudaGraphSetConditional": self.driver.fake_set_condition})
            else:
                hostcuda.compile_missing([kept[:2], *self._loaded_since])
                self._loaded_since.clear()
                run(*kept)  # more than once, in graphs
        except BaseException:
            self._failed.append(traceback.format_exc())

    def _now(self, kernel, blocks, threads, parameters):
        self._run(self._keep(kernel, blocks, threads, parameters))

    def log(self):
        """The calls since the last look."""
        text = self.driver.fake_log().decode()
        self.driver.fake_forget()
        assert not self._failed, self._failed.pop()
        return [line for line in text.splitlines() if not line.startswith(("load", "kernel"))]

    def fail(self, function=""):
        """From now on a function of the driver fails."""
        self.driver.fake_fail(function.encode())

    def held(self):
        """What the driver waits to get back: memory and contexts, streams, events."""
        counts = (ctypes.c_int * 2)()
        self.driver.fake_live(counts)
        return self.driver.fake_held(), *counts
