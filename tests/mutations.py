"""Mistakes on purpose: seed each of a list into a copy of the sources, run the tests beside it, and see them fail.

    python tests/mutations.py                     # all of them, into tests/mutations.json under "short run"
    python tests/mutations.py ties "far places"   # some of them, by their names

Each names the pass that it is for and the files of tests that look at the mutated module, the most likely first; these
run with ``-x``, and the first test that fails is what kills it.  A mutation that no test of these kills survives: run
the whole pass on it then.  `make mutations` runs all; `tests/test_mutations.py` holds that each one still applies.  In
tests/mutations.json "before" says what killed each before passes left tests out, null for nothing.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "tests" / "mutations.json"
SECONDS = 900  # for one of them


class Mutation(NamedTuple):
    """A mistake: in `file`, below src/seqformats, `old` becomes `new`; `tests` look for it, in a pass."""

    name: str
    kind: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    how: str = "jit"


ALONE = "not peers and not bridges and not jax and not wheel"
PASSES = {  # environment, variables, tests
    "jit": (".venv", {"NUMBA_CACHE_DIR": ".cache/jit"}, ALONE),
    "interpreted": (
        ".venv",
        {"NUMBA_DISABLE_JIT": "1", "NUMBA_ENABLE_CUDASIM": "1", "NUMBA_CACHE_DIR": ".cache/interpreted"},
        ALONE,
    ),
    "peers": (".venv-bridges", {"NUMBA_CACHE_DIR": ".cache/jit"}, "peers"),
    "bridges": (".venv-bridges", {"NUMBA_CACHE_DIR": ".cache/jit"}, "bridges"),
}

MUTATIONS = [
    # --- kernels ---
    Mutation(
        "long sums in blocks",
        "kernel",
        "kernels/softmax_rows.py",
        "    if length > 64:\n        total = p.round_sum(blocks, total)",
        "    if length > 128:\n        total = p.round_sum(blocks, total)",
        ("kernels/test_precision.py", "operations/test_sequence.py"),
    ),
    Mutation(
        "the end of a slice backwards",
        "kernel",
        "kernels/cut_runs.py",
        "    low = 0 if step > 0 else -1\n",
        "    low = 0\n",
        ("operations/test_cut.py",),
    ),
    Mutation(
        "ties in runs that are merged",
        "kernel",
        "kernels/order_rows.py",
        "        right = two < one\n",
        "        right = two <= one\n",
        ("operations/test_order.py",),
    ),
    Mutation(
        "ties of candidates",
        "kernel",
        "kernels/select_beams.py",
        "while j > 0 and values[begin + j - 1] < value:",
        "while j > 0 and values[begin + j - 1] <= value:",
        ("test_paddle.py", "beam/test_beam.py"),
    ),
    Mutation(
        "a barrier of a GPU",
        "kernel",
        "kernels/order_rows.py",
        "            gpu.syncthreads()\n            source, target, few = begin + k, begin + total + k, 1\n",
        "            source, target, few = begin + k, begin + total + k, 1\n",
        ("launch/test_cuda.py",),
    ),
    Mutation(
        "ties on a GPU",
        "kernel",
        "kernels/argmax_rows.py",
        " or (places[other] < places[slot] and not p.is_better(a, b, least)):",
        ":",
        ("launch/test_cuda.py::test_the_first_of_equal_items_as_it_is_compiled", "operations/test_order.py"),
    ),
    # --- gradients ---
    Mutation(
        "the dtype of a gradient",
        "gradient",
        "gradients/cotangent.py",
        "    return library.astype(x, name) if floats else x\n",
        "    return x\n",
        ("gradients/test_grad.py",),
    ),
    Mutation(
        "a column without a gradient",
        "gradient",
        "gradients/columns.py",
        'dys = match_columns(dy, like, "the gradient", missing=True)',
        'dys = match_columns(dy, like, "the gradient")',
        ("converters/test_trees.py",),
    ),
    Mutation(
        "the conjugate in a product",
        "gradient",
        "kernels/prod_back.py",
        "        p.store(out, d, p.load(out, d, count, out) * after)\n"
        "        after = after * p.conjugate(p.load(y, d, count, out))\n",
        "        p.store(out, d, p.load(out, d, count, out) * after)\n"
        "        after = after * p.load(y, d, count, out)\n",
        ("operations/test_reduce.py", "gradients/test_grad.py"),
    ),
    Mutation(
        "twice the distance from the mean",
        "gradient",
        "kernels/var_back.py",
        "        factor = (factor + factor) / p.each(blocks, divisor, count)\n",
        "        factor = factor / p.each(blocks, divisor, count)\n",
        ("operations/test_moments.py", "operations/test_reduce.py", "gradients/test_grad.py"),
    ),
    Mutation(
        "the gradient of a gradient",
        "gradient",
        "operations/moments.py",
        "    factor = (2.0 - deviation) / np.maximum",
        "    factor = 2.0 / np.maximum",
        ("arrays/test_torch.py", "gradients/test_torch_func.py"),
        "peers",
    ),
    Mutation(
        "windows at the end",
        "gradient",
        "kernels/window_back.py",
        "                for q in range(p.at_least(t + before - length + 1, 0), p.at_most(count, t + before + 1)):\n",
        "                for q in range(p.at_least(t + before - length + 2, 0), p.at_most(count, t + before + 1)):\n",
        ("operations/test_sequence.py",),
    ),
    # --- wrappers ---
    Mutation(
        "what a function writes into the padding",
        "wrapper",
        "wrapping/wrapper.py",
        "            return without_padding(y)\n",
        "            return y\n",
        ("test_wrap.py",),
    ),
    Mutation(
        "a gradient in the caller's dtype",
        "wrapper",
        "wrapping/wrapper.py",
        "            if dx.dtype != dtype:\n",
        "            if dx.dtype == dtype:\n",
        ("test_wrap.py", "gradients/test_grad.py"),
    ),
    Mutation(
        "rows of a new name",
        "wrapper",
        "wrapping/trees.py",
        "        return not rows or (bool(lead) and tuple(y.shape[: len(lead)]) == lead)\n",
        "        return not rows\n",
        ("converters/test_trees.py", "test_wrap.py"),
    ),
    Mutation(
        "lists and tuples that come back",
        "wrapper",
        "wrapping/flatten.py",
        "            kind(itertools.islice(",
        "            list(itertools.islice(",
        ("test_wrap.py",),
    ),
    Mutation(
        "columns of the same sequences",
        "wrapper",
        "wrapping/wrapper.py",
        "    if not own.same_lengths(wanted) or same_numbers(own.order.indices, wanted.order.indices):\n",
        "    if own.same_lengths(wanted) or same_numbers(own.order.indices, wanted.order.indices):\n",
        ("test_wrap.py", "converters/test_trees.py"),
    ),
    Mutation(
        "a batch that is the function's own",
        "wrapper",
        "wrapping/wrapper.py",
        "            if y is x or (batch is x and not y._gapped):\n",
        "            if y is x or batch is x:\n",
        ("test_wrap.py",),
    ),
    # --- readers ---
    Mutation(
        "lists that are null and not empty",
        "reader",
        "arrow/reading.py",
        "            if present is None or not structure.lengths[~present].any():\n",
        "            if structure.rows >= 0:\n",
        ("bridges/test_arrow.py",),
        "bridges",
    ),
    Mutation(
        "views beyond the end",
        "reader",
        "arrow/reading.py",
        "        if ((starts < 0) | (sizes < 0) | (starts > end - sizes)).any():\n",
        "        if ((starts < 0) | (sizes < 0)).any():\n",
        ("bridges/test_arrow.py",),
        "bridges",
    ),
    Mutation(
        "integers below a dtype",
        "reader",
        "converters/nested.py",
        "        if data.size == 0 or (limits.min <= data.min() and data.max() <= limits.max):\n",
        "        if data.size == 0 or data.max() <= limits.max:\n",
        ("converters/test_nested.py",),
    ),
    Mutation(
        "integers over int64",
        "reader",
        "converters/nested.py",
        '        if dtype is None and data.dtype.kind == "f" and kinds == {int}:\n',
        '        if dtype is None and data.dtype.kind == "i" and kinds == {int}:\n',
        ("converters/test_nested.py",),
    ),
    Mutation(
        "flags of all",
        "reader",
        "reading.py",
        "        common &= item.flags.num\n",
        "        common = item.flags.num\n",
        ("core/test_common_flags.py",),
    ),
    Mutation(
        "a list beside arrays",
        "reader",
        "converters/nested.py",
        "    if cast is None or (dtype is None and not same_values(given, cast)):\n",
        "    if cast is None:\n",
        ("converters/test_nested.py",),
    ),
    # --- error checks ---
    Mutation(
        "the place behind the last",
        "error",
        "formats/index.py",
        "    if not -n <= i < n:\n",
        "    if not -n <= i <= n:\n",
        ("formats/test_indexing.py",),
    ),
    Mutation(
        "longer than the data is wide",
        "error",
        "formats/masked.py",
        "        if structure.longest > width:\n",
        "        if structure.longest > width + 1:\n",
        ("test_errors.py", "formats/test_formats.py", "test_fuzz.py"),
    ),
    Mutation(
        "offsets that fall",
        "error",
        "kernels/check_offsets.py",
        "        if offsets[i + 1] < offsets[i]:\n",
        "        if offsets[i + 1] < 0:\n",
        ("test_errors.py", "formats/test_formats.py", "test_fuzz.py"),
    ),
    Mutation(
        "fewer gradients than batches",
        "error",
        "wrapping/wrapper.py",
        "            if not isinstance(dx, tuple) or len(dx) != len(arguments):\n",
        "            if not isinstance(dx, tuple):\n",
        ("test_wrap.py",),
    ),
    Mutation(
        "a class behind the last",
        "error",
        "kernels/check_targets.py",
        "            if target < 0 or target >= classes:\n",
        "            if target < 0 or target > classes:\n",
        ("operations/test_loss.py",),
    ),
    Mutation(
        "more results than places",
        "error",
        "beam/options.py",
        '    if check_at_least(options.n_best, "n_best", 1) > places and n:\n',
        '    if check_at_least(options.n_best, "n_best", 1) > places + 1 and n:\n',
        ("beam/test_beam.py", "beam/test_beam_search.py"),
    ),
]


BUILT = ("core/fast*.so", "native/shipped/*")  # which git ignores; without them part of the sources never runs


def copied(folder):
    """The files of the project, and what is built beside the sources, in a folder of their own."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    built = [str(path.relative_to(ROOT)) for each in BUILT for path in (ROOT / "src/seqformats").glob(each)]
    for name in [*filter(None, listed.stdout.split("\0")), *built]:
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def tested(copy, how, tests, environments):
    """Run some tests in the copy, up to the first that fails: which one that is, None where all pass."""
    environment, variables, marked = PASSES[how]
    variables = {name: str(environments / x) if name.endswith("DIR") else x for name, x in variables.items()}
    command = [environments / environment / "bin/python", "-m", "pytest", "-x", "-q", "-m", marked]
    command += ["--tb=no", "--no-header", "-p", "no:cacheprovider", *tests]
    try:
        ran = subprocess.run(
            [*map(str, command)],
            cwd=copy, env={**os.environ, **variables, "CI": "1", "PYTHONPATH": str(copy / "src")},
            capture_output=True, text=True, timeout=SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "no end"
    found = re.search(r"^(?:FAILED|ERROR) (tests/.+?)(?: - |$)", ran.stdout, re.MULTILINE)
    if ran.returncode in (0, 4, 5) or (ran.returncode == 1 and not found):
        return None  # passed, though a kernel was compiled that the wheel has as it should be; or not there
    return found.group(1) if found else f"exit status {ran.returncode} of {' '.join(tests)}"


def seeded(copy, mutation):
    """The file of the copy, and its text with the mistake in it."""
    path = copy / "src/seqformats" / mutation.file
    text = path.read_text()
    assert text.count(mutation.old) == 1, f"{mutation.name}: the old text stands {text.count(mutation.old)} times"
    return path, text, text.replace(mutation.old, mutation.new)


def judged(copy, mutation, environments, known=None):
    """What kills it, and after how many seconds; a test that fails without the mistake too kills nothing.

    A test that is `known` to have killed it is tried first, if it is still there.
    """
    path, text, wrong = seeded(copy, mutation)
    begin = time.monotonic()
    path.write_text(wrong)
    try:
        killer = None
        for name in [*filter(None, [known]), *(f"tests/{name}" for name in mutation.tests)]:
            killer = tested(copy, mutation.how, [name], environments)
            if killer is not None:
                break
    finally:
        path.write_text(text)
    seconds = time.monotonic() - begin
    if killer is not None and killer.startswith("tests/"):  # and no crash
        again = tested(copy, mutation.how, [killer], environments)
        if again is not None:
            raise SystemExit(f"{mutation.name}: {killer} fails without the mistake too: {again}")
    return {"killed by": killer, "seconds": round(seconds)}


def main(names, environments, results):
    found = json.loads(results.read_text()) if results.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        copied(copy)
        for mutation in MUTATIONS:
            if not names or mutation.name in names:
                known = found.setdefault(mutation.name, {"kind": mutation.kind, "pass": mutation.how})
                killer = known.get("before", {}).get("killed by") or ""
                killer = killer if killer.startswith("tests/") else None
                known["short run"] = one = judged(copy, mutation, environments, killer)
                print(f"{mutation.name}: {one['killed by'] or 'survives'}, {one['seconds']} s", flush=True)
                results.write_text(json.dumps(found, indent=1) + "\n")
    survivors = [x.name for x in MUTATIONS if not found.get(x.name, {}).get("short run", {}).get("killed by")]
    print(f"{len(found) - len(survivors)} of {len(found)} killed" + "".join(f"\nsurvives: {x}" for x in survivors))


if __name__ == "__main__":
    main(
        sys.argv[1:],
        Path(os.environ.get("ENVIRONMENTS", ROOT)).resolve(),
        Path(os.environ.get("RESULTS", RESULTS)),
    )
