"""Settings of the whole suite, made before JAX is imported; markers; the option --update-golden."""

from __future__ import annotations

import functools
import gc
import os
from importlib import metadata
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["budget"]

# Examples per property: enough to notice, few enough for every run; `--hypothesis-profile=thorough` for a long look.
settings.register_profile("fast", max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", parent=settings.get_profile("fast"), max_examples=1000)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden anew, not compare with it")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--hypothesis-profile", None) is None:
        settings.load_profile("fast")
    if config.option.markexpr != "gpu":
        # Tests are for the CPU, also on a machine with a GPU, unless `-m gpu` asks for that.
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
    # XLA compiles for most of the time that tests take: a third less without LLVM's expensive passes, and half of the
    # rest where it writes loops itself, not by way of MLIR. (Newer versions always do, and stop at a flag that they do
    # not know.) XLA's own passes run as ever (fusion, copies, aliases).
    is_brief = os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1") == "1"
    if is_brief and tuple(map(int, metadata.version("jaxlib").split(".")[:2])) < (0, 11):
        os.environ["XLA_FLAGS"] = f"--xla_cpu_use_fusion_emitters=false {os.environ.get('XLA_FLAGS', '')}".strip()
    import jax

    # JAX and compiled kernels keep half a million objects, which each full collection of garbage looks at: by Python's
    # own limits that takes 5 to 10 % of the processor time of tests that compile. Tests of lifetimes call `gc.collect`.
    gc.set_threshold(20_000, 10, 10)

    # Virtual devices for the tests of shard_map.
    jax.config.update("jax_num_cpu_devices", 8)
    # Nothing changes type on its own. 64-bit types are off, as in JAX by default: tests enable them.
    jax.config.update("jax_numpy_dtype_promotion", "strict")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m gpu`, files that have no such tests: where there is a GPU, what they import need not be."""
    if config.option.markexpr != "gpu" or not collection_path.is_file():
        return None
    return "pytest.mark.gpu" not in collection_path.read_text() or None


@functools.cache
def has_gpu() -> bool:
    import jax

    try:
        return bool(jax.devices("cuda"))
    except RuntimeError:
        return False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("gpu") is not None and not has_gpu():
            item.add_marker(pytest.mark.skip(reason="needs a CUDA GPU (run with -m gpu where there is one)"))
        released = item.get_closest_marker("release_mode")
        if released is not None and os.environ.get("JAXWARP_MODE") == "debug":
            item.add_marker(pytest.mark.skip(reason=f"not for debug mode: {released.args[0]}"))


@pytest.fixture(scope="session", autouse=True)
def _code_is_made_here() -> None:
    """Take no code from processes before this one: tests change what decides about it."""
    from jaxwarp.frontend import kept
    from jaxwarp.launches import code

    code.forget()
    kept.forget()


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))
