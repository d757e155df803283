"""The cache of compiled code: keys, damage, pruning, processes at once, and the loader in front of it."""

import functools
import hashlib
import logging
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from cpukit import Make, floats

from jaxwarp.codegen import cache
from jaxwarp.codegen.cpu import compile as cpu_compile
from jaxwarp.codegen.cpu import compile_cpu, launch, load_bitcode


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("JAXWARP_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def kernel(constant=1.0):
    m = Make()
    a = m.array(None)
    m.store(a, [m.tid(0)], m.op("add", m.load(a, [m.tid(0)]), m.f(constant)))
    return m.kernel()


def load(code):
    return load_bitcode(code.bitcode, hashlib.sha256(code.bitcode).hexdigest(), code.symbol)


def test_what_is_put_is_got(folder):
    assert cache.get("a" * 64) is None
    cache.put("a" * 64, b"code")
    cache.put("b" * 64, b"")
    assert cache.get("a" * 64) == b"code"
    assert cache.get("b" * 64) == b""
    cache.put("a" * 64, b"newer")
    assert cache.get("a" * 64) == b"newer"
    assert sorted(p.name for p in folder.iterdir()) == ["a" * 64 + ".bin", "b" * 64 + ".bin"]


def test_keys_differ_where_parts_do():
    keys = {cache.key(*parts) for parts in [(), ("",), ("ab",), ("a", "b"), ("a", "b", ""), (b"ab", "c"), ("a", "bc")]}
    assert len(keys) == 7
    assert cache.key("a", b"b") == cache.key("a", "b")
    assert all(len(k) == 64 for k in keys)


@pytest.mark.parametrize("damage", [b"", b"short", b"JAXWARP-CACHE-1\n" + b"0" * 40, "flip", "cut", "moved"])
def test_damaged_and_foreign_entries_count_as_absent(folder, damage, caplog):
    name, other = "c" * 64, "d" * 64
    cache.put(name, b"some code")
    path = folder / (name + ".bin")
    whole = path.read_bytes()
    if damage == "moved":
        name, path = other, path.rename(folder / (other + ".bin"))
    else:
        path.write_bytes({"flip": whole[:-1] + b"X", "cut": whole[:-1]}.get(damage, damage))
    with caplog.at_level(logging.WARNING):
        assert cache.get(name) is None
    assert "is damaged and is ignored" in caplog.text
    cache.put(name, b"again")
    assert cache.get(name) == b"again"


def test_folder_that_cannot_be_used(tmp_path, monkeypatch):
    """A file in the way, as for a user without a home or on a read-only disk."""
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("JAXWARP_CACHE_DIR", str(tmp_path / "file" / "cache"))
    cache.put("e" * 64, b"code")
    assert cache.get("e" * 64) is None
    assert load(compile_cpu(kernel(2.0)))


def test_empty_folder_name_turns_the_cache_off(tmp_path, monkeypatch):
    monkeypatch.setenv("JAXWARP_CACHE_DIR", "")
    monkeypatch.chdir(tmp_path)
    cache.put("f" * 64, b"code")
    assert cache.get("f" * 64) is None
    assert not list(tmp_path.iterdir())


def test_default_folder_is_in_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("JAXWARP_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache.folder() == tmp_path / "jaxwarp"


def test_pruning_deletes_what_was_unused_longest(folder, monkeypatch):
    monkeypatch.setenv("JAXWARP_CACHE_MB", "1")
    monkeypatch.setattr(cache, "_writes", 1)
    names = [f"{n:064d}" for n in range(12)]
    for age, name in enumerate(names):
        cache.put(name, bytes(100_000))
        os.utime(folder / (name + ".bin"), (time.time() - 1000 + age,) * 2)
    abandoned, fresh = folder / "x.tmp", folder / "y.tmp"
    for path, age in ((abandoned, 5000), (fresh, 5)):
        path.write_bytes(b"")
        os.utime(path, (time.time() - age,) * 2)
    assert cache.get(names[0]) is not None  # a use makes it young
    monkeypatch.setattr(cache, "_writes", 64)
    cache.put("z" * 64, b"")
    kept = {p.stem for p in folder.glob("*.bin")}
    assert sum(p.stat().st_size for p in folder.iterdir()) <= 3 * 2**20 // 4
    assert {names[0], names[11], "z" * 64} <= kept
    assert names[1] not in kept
    assert not abandoned.exists()
    assert fresh.exists()


def test_machine_code_is_compiled_once(folder, monkeypatch):
    code = compile_cpu(kernel(3.0))
    compiled = []
    original = cpu_compile.compile_object
    monkeypatch.setattr(cpu_compile, "compile_object", lambda *args: compiled.append(1) or original(*args))
    for _ in range(3):
        assert load(code)
    assert len(compiled) == 1
    assert len(list(folder.glob("*.bin"))) == 1


def test_code_that_does_not_link_is_compiled_again(folder, caplog):
    """An entry whose checksum is right but whose content is no object file of ours."""
    code = compile_cpu(kernel(4.0))
    load(code)
    (path,) = folder.glob("*.bin")
    cache.put(path.stem, b"not an object file")
    with caplog.at_level(logging.WARNING):
        assert load(code)
    assert "cannot be linked, compiling again" in caplog.text
    assert cache.get(path.stem).startswith(b"\x7fELF") or sys.platform == "darwin"
    x = floats(8)
    launch(code, kernel(4.0), (8,), [y := x.copy()])
    assert np.array_equal(y, x + 4)


PROCESS = """
import numpy as np
from test_cpu_cache import kernel
from jaxwarp.codegen.cpu import run_cpu
for constant in range(6):
    x = np.zeros(40, np.float32)
    run_cpu(kernel(float(constant)), (40,), [x])
    assert (x == constant).all()
print("done")
"""


def test_processes_that_compile_at_once(folder):
    """They write the same entries; each computes the right thing, and what is left is whole."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, Path(__file__).parents[:2]), *sys.path])}
    workers = [
        subprocess.Popen([sys.executable, "-c", PROCESS], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [w.communicate(timeout=120)[0].strip() for w in workers] == ["done"] * 3
    entries = list(folder.iterdir())
    assert len(entries) == 6
    assert all(cache.get(p.stem) for p in entries)


def test_threads_that_link_first_share_the_linker(monkeypatch):
    """Code of a second linker was freed with it: threads that launched at once as a program began died of that."""

    def make():
        time.sleep(0.05)  # the others ask meanwhile
        return object()

    monkeypatch.setattr(cpu_compile, "_made_linker", functools.cache(make))
    together = threading.Barrier(4)

    def link(_):
        together.wait()
        return cpu_compile._linker()

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(link, range(4)))) == 1
