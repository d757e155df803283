# PYTHON  the interpreter to build environments with, or, for the gpu targets, to run on
# VENV    where the environment goes
# JAX     a JAX version to hold the environment to (empty: the newest that fits)
# TORCH   a PyTorch version to install, for tests/arrays/test_torch.py (empty: none, and they are skipped)
# NVRTC   the version of NVRTC to test with: 12, with CUDA 12's cuda-python, or one like 13.0 (empty: the newest)
# TESTS   what pytest is told besides: files, -k ... (empty: all tests)
PYTHON ?= python3
VENV ?= .venv
JAX ?=
TORCH ?=
NVRTC ?=
TESTS ?=

# Many tests start a process: without byte code each compiles the modules of the package again, 1.3 s of processor time.
unexport PYTHONDONTWRITEBYTECODE

# Python compiles the modules that it imports. If pip compiled all that it installs, an installation would take twice as
# long.
export PIP_COMPILE := 0

NATIVE := $(wildcard jaxwarp/native/*.cc jaxwarp/native/*.h) jaxwarp/native/exports.map
LIBRARY := jaxwarp/native/lib/libjaxwarp.so
BIN := $(VENV)/bin
LINT := .venv-lint
RELEASE := .venv-release
REQUIRE_PYTHON = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
  echo "jaxwarp needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version 2>&1)." \
       "Name a newer one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{printf "%-26s %s\n", $$1, $$2}'

generated: $(VENV)/ready  ## write what is generated: the type stub, pages and tables in docs, the grammar of the IR
	$(BIN)/python -m jaxwarp.document

docs: $(VENV)/ready generated  ## the documentation as a site in build/site, with the API, the gallery and a search
	@mkdir -p build
	$(BIN)/python -c "import tomllib; extras = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
	  print(*extras['optional-dependencies']['docs'], sep='\n')" >build/docs-requirements.txt
	$(BIN)/python -m pip install --quiet --requirement build/docs-requirements.txt
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build
	@echo "wrote build/site/index.html"

# Versions are those of pyproject.toml: which tag a wheel may have is auditwheel's to know.
wheels:  ## wheels for x86_64 and, with GNU's cross compiler, aarch64, and the source distribution, in build/wheels
	@$(REQUIRE_PYTHON)
	@mkdir -p build
	test -x $(RELEASE)/bin/python || $(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb')); \
	  needed = project['project']['optional-dependencies']['release'] + project['build-system']['requires']; \
	  print(*needed, sep='\n')" >build/release-requirements.txt
	$(RELEASE)/bin/python -m pip install --quiet --requirement build/release-requirements.txt
	$(RELEASE)/bin/python tools/wheels.py

.PHONY: help generated docs wheels demo notebooks test test-all lint pytest quick test-xla cuda-plugin native sanitize fuzz test-gpu bench bench-irregular bench-debug bench-asserts bench-derivatives gpu-report warp-code bench-launch bench-eager bench-tape bench-tiles bench-fem bench-sparse bench-linear-solvers bench-warp-steps programs bench-compile bench-scaling bench-sizes clean

demo: $(VENV)/ready  ## the example of the front page: pictures in out/
	mkdir -p out
	$(BIN)/python examples/wind_tunnel.py

notebooks: $(VENV)/ready  ## run some of the examples as notebooks, into examples/notebooks
	$(BIN)/python -m pip install --quiet --editable '.[notebooks,examples]'
	$(BIN)/python tools/notebooks.py

test: lint quick  ## set up an environment, then lint and the tests that are not slow

test-all: lint pytest  ## set up an environment, then lint and all tests

test-xla: cuda-plugin  ## programs on XLA's H200 target, without a GPU
	$(BIN)/python -m pytest tests/xla

cuda-plugin: $(VENV)/ready  ## JAX's plugin for CUDA in build/cuda-plugin, where it is not in the way (400 MB)
	rm -rf build/cuda-plugin
	version=$$($(BIN)/python -c 'import jaxlib; print(jaxlib.__version__)'); $(BIN)/python -m pip install --quiet --no-deps \
	  --target build/cuda-plugin jax-cuda13-pjrt==$$version jax-cuda13-plugin==$$version

# Neighbours stay with one process, which has compiled what they share.
pytest: $(VENV)/ready  ## all tests, without lint; TESTS="-k name" for some
	$(BIN)/python -m pytest -n 2 --dist worksteal $(TESTS)

quick: $(VENV)/ready  ## the tests that are not slow (tests/slow.txt); TESTS="-k name" for some
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" $(TESTS)

lint: $(LINT)/ready  ## ruff, pyright and mypy, in an environment of their own
	$(LINT)/bin/ruff check
	$(LINT)/bin/mypy --python-executable $(LINT)/bin/python & mypy=$$!; \
	  $(LINT)/bin/pyright --pythonpath $(LINT)/bin/python && wait $$mypy

# An environment of its own, with exact versions: what a user has or pip finds today does not decide about our types.
$(LINT)/ready: tools/lint-requirements.txt
	@$(REQUIRE_PYTHON)
	test -x $(LINT)/bin/python || $(PYTHON) -m venv $(LINT)
	$(LINT)/bin/python -m pip install --quiet --requirement $<
	touch $@

$(VENV)/ready: pyproject.toml CMakeLists.txt $(NATIVE)
	@$(REQUIRE_PYTHON)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[test]' $(if $(JAX),jax==$(JAX) jaxlib==$(JAX))
	$(if $(filter 12,$(NVRTC)),$(BIN)/python -m pip uninstall --quiet --yes nvidia-cuda-nvrtc)
	$(if $(filter 12,$(NVRTC)),$(BIN)/python -m pip install --quiet nvidia-cuda-nvrtc-cu12 'cuda-python<13')
	$(if $(filter 13.%,$(NVRTC)),$(BIN)/python -m pip install --quiet 'nvidia-cuda-nvrtc==$(NVRTC).*')
	$(if $(TORCH),$(BIN)/python -m pip install --quiet torch==$(TORCH) || echo "No torch $(TORCH): its tests are skipped.")
	touch $@

# The targets below install nothing and need no network: they build the library into the source tree with the tools at
# hand and run on the JAX that PYTHON has.
native: $(LIBRARY)  ## build the native library into the source tree, installing nothing

$(LIBRARY): CMakeLists.txt $(NATIVE)
	@mkdir -p $(@D) build
	@{ cmake -S . -B build/native -DPython_EXECUTABLE="$$(command -v $(PYTHON))" && cmake --build build/native \
	    && cmake --install build/native --prefix . ; } >build/native.log 2>&1 \
	  || { echo "CMake failed (build/native.log); calling the compiler directly"; \
	       $(or $(CXX),g++) -std=c++17 -O3 -fPIC -shared -fvisibility=hidden \
	         -static-libstdc++ -shared-libgcc -Wl,--gc-sections \
	         -isystem "$$($(PYTHON) -c "import importlib.util as u; \
	                   print(u.find_spec('jaxlib').submodule_search_locations[0])")/include" \
	         -Wl,--version-script=jaxwarp/native/exports.map jaxwarp/native/*.cc -ldl -o $@; }
	@touch $@

# The library built with the sanitizers of addresses, undefined behaviour and threads runs its tests.
sanitize:  ## the native tests with the sanitizers of addresses, undefined behaviour and threads
	PYTHONPATH=. $(PYTHON) tools/sanitize.py

# Random kernels, random gradients and mutants, so many of each; what they find is kept in build/fuzz. A long run may be
# cut: FIRST is the number to begin with, and runs count together (without counts it prints what was tried). 1,000 kernels
# take 3 to 4 minutes of a core, 1,000 gradients 3 to 4 and 1,000 mutants 7 seconds.
KERNELS ?= 100000
GRADIENTS ?= 10000
MUTANTS ?= 100000
SEED ?= 0
FIRST ?= 0
fuzz: native  ## random kernels, gradients and mutants: KERNELS= GRADIENTS= MUTANTS= SEED= FIRST=
	PYTHONPATH=.:tests $(PYTHON) tests/fuzz/run.py --kernels $(KERNELS) --gradients $(GRADIENTS) --mutants $(MUTANTS) \
	  --seed $(SEED) --first $(FIRST)

test-gpu: native  ## the tests that need a GPU; TESTS="-n 8" for several processes
	PYTHONPATH=. XLA_PYTHON_CLIENT_PREALLOCATE=false $(PYTHON) -m pytest -m gpu -p no:benchmark $(TESTS)

# Needs a C++ compiler; compares with Numba and Warp where PYTHON has them. PLOT=docs/images/cpu.png draws the results.
bench: native  ## CPU code beside C++, Numba and Warp, derivatives, short rows
	PYTHONPATH=. $(PYTHON) benchmarks/cpu.py $(if $(PLOT),--plot $(PLOT))
	PYTHONPATH=. $(PYTHON) benchmarks/irregular.py
	PYTHONPATH=. $(PYTHON) benchmarks/derivatives.py
	PYTHONPATH=. $(PYTHON) benchmarks/short_rows.py

bench-irregular: native  ## rays, closest points, neighbours, sparse rows, samples beside C++, Numba and Warp; meshes
	PYTHONPATH=. $(PYTHON) benchmarks/irregular.py
	PYTHONPATH=. $(PYTHON) benchmarks/spatial.py
	PYTHONPATH=. $(PYTHON) benchmarks/spatial.py --growth

bench-debug: native  ## what debug mode costs
	PYTHONPATH=. $(PYTHON) benchmarks/debug.py

bench-asserts: native  ## what an assertion costs
	PYTHONPATH=. $(PYTHON) benchmarks/asserts.py

bench-derivatives: native  ## derivatives beside their primals
	PYTHONPATH=. $(PYTHON) benchmarks/derivatives.py

# OUT is the folder for results. DRY=1 runs all of it without a GPU, on little data.
gpu-report: native  ## all that a machine with a GPU can say, in eight minutes, as tables and JSON: OUT= DRY=
	PYTHONPATH=.:benchmarks:tests $(PYTHON) -u -m gpu_report $(if $(OUT),--out $(OUT)) $(if $(DRY),--dry-run)

warp-code:  ## Warp's machine code in build/warp-code, which gpu-report launches where there is no Warp
	PYTHONPATH=.:benchmarks:tests $(PYTHON) -m gpu_report.warp_code

bench-launch: native  ## what a launch costs
	PYTHONPATH=. $(PYTHON) benchmarks/launch.py

bench-eager: native  ## large launches outside of JAX beside jitted calls
	PYTHONPATH=. $(PYTHON) benchmarks/eager.py

bench-tape: native  ## recording and reversing small launches
	PYTHONPATH=. $(PYTHON) benchmarks/tape.py

bench-tiles: native  ## kernels on tiles beside Warp
	PYTHONPATH=. $(PYTHON) benchmarks/tiles.py

bench-fem: native  ## matrices of finite elements beside Warp
	PYTHONPATH=. $(PYTHON) benchmarks/fem.py

bench-sparse: native  ## sparse matrices beside Warp and SciPy
	PYTHONPATH=. $(PYTHON) benchmarks/sparse.py

bench-linear-solvers: native  ## linear solvers beside Warp and SciPy
	PYTHONPATH=. $(PYTHON) benchmarks/linear_solvers.py

bench-warp-steps: native  ## Warp's own programs: steps a second beside Warp
	PYTHONPATH=. $(PYTHON) benchmarks/warp_steps.py

programs: native  ## programs on Warp, installed and compared: docs/programs.md
	PYTHONPATH=. $(PYTHON) tools/programs.py --tests

bench-sizes: native  ## a kernel over sizes
	PYTHONPATH=. $(PYTHON) benchmarks/sizes.py

# Devices of one process and, where there is mpirun (Open MPI), processes.
bench-scaling: native  ## devices and processes
	PYTHONPATH=. $(PYTHON) benchmarks/scaling.py --json benchmarks/results/scaling.json

bench-compile: native  ## the time to compile
	PYTHONPATH=. $(PYTHON) benchmarks/compile.py

clean:  ## remove what was built
	rm -rf build dist out $(dir $(LIBRARY))
