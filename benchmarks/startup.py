"""What starting costs: importing the library, its first conversion, and ten operations whose caches are empty.

    python -m benchmarks.startup [runs]

Fresh processes, in an order that is drawn anew in each round.  Goals are of minima, which whatever else runs can only
lengthen.  The first processes see nothing but NumPy, this library and what it needs; where Awkward or SciPy are
installed, others see the whole environment, since Numba looks for the extensions of both.

Wheels bring compiled kernels; a checkout compiles its own, once for each cache, and then the figures say so.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import seqformats

from .cells import quartiles

NEEDED = ("numpy", "numba", "llvmlite")
OTHERS = ("awkward", "scipy")

CONVERSION = """
import numpy as np, seqformats as sf
sf.convert([np.ones((k, 4), np.float32) for k in (3, 1, 2)], sf.Ragged)
"""
TEN = """
import sys
import numpy as np, seqformats as sf
items = [np.ones((k, 4), np.float32) for k in (3, 1, 2)]
x = sf.convert(items, sf.Ragged)
for kind in (sf.Padded, sf.Masked, sf.Packed):
    sf.convert(sf.convert(x, kind), sf.Ragged)
sf.reduce_sum(x), sf.reduce_mean(x), sf.reduce_max(x), sf.softmax(x), sf.expand_as(np.ones((3, 4)), x), x[[2, 0]]
print("numba" in sys.modules)
"""
SCRIPTS = {
    "import numpy": "import numpy",
    "import seqformats": "import numpy, seqformats",
    "first conversion": CONVERSION,
}
COLD = "ten operations, empty caches"


def bare(folder: pathlib.Path) -> str:
    """A folder with links to what the library needs, and nothing else, for processes that see no other packages."""
    folder.mkdir()
    for name in (*NEEDED, "seqformats"):
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            continue
        package = pathlib.Path(next(iter(spec.submodule_search_locations))).resolve()
        beside = [*package.parent.glob(f"{name}.libs"), *package.parent.glob(f"{name}-*.dist-info")]
        for path in (package, *beside):
            (folder / path.name).symlink_to(path)
    return str(folder)


def run(code: str, path: str | None, cache: pathlib.Path | None = None) -> tuple[float, float, str]:
    """Seconds of the wall and of the CPU that a fresh process takes, and what it says.

    `path`: the folder that it sees packages in, instead of those of this process.  `cache`: for kernels, an empty one.
    """
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # a user's Python keeps what it has compiled
    if path:
        environment["PYTHONPATH"] = path
    if cache:
        environment |= {"SEQFORMATS_CACHE_DIR": str(cache / "own"), "NUMBA_CACHE_DIR": str(cache / "numba")}
    command = [sys.executable, *(["-S"] if path else []), "-c", code]
    with tempfile.TemporaryDirectory() as here:  # not where the packages of a checkout lie
        before, begin = os.times(), time.perf_counter()
        done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, check=False)
        wall, after = time.perf_counter() - begin, os.times()
    if done.returncode:
        raise RuntimeError(done.stderr)
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, cpu, done.stdout.strip()


def installed() -> list[str]:
    """What of the packages with extensions for Numba is here."""
    return [name for name in OTHERS if importlib.util.find_spec(name)]


def from_checkout() -> bool:
    """Is the library imported from its source?"""
    try:
        files = importlib.metadata.files("seqformats") or []
    except importlib.metadata.PackageNotFoundError:
        return True
    return pathlib.Path(seqformats.__file__).resolve() not in {pathlib.Path(f.locate()).resolve() for f in files}


def where(numba: bool) -> str:
    """A sentence on what was measured."""
    kind = "a checkout" if from_checkout() else "an installed package"
    if not numba:
        return f"The library is {kind}, and reads kernels that are compiled already."
    return f"The library is {kind}, which compiles its kernels with Numba: so with empty caches the figures are those."


def measure(runs: int = 21) -> dict[str, object]:
    """Seconds by name, the pairs that goals compare, and what ten operations with empty caches take over NumPy."""
    with tempfile.TemporaryDirectory() as folder:
        home = pathlib.Path(folder)
        alone = bare(home / "packages")
        others = " and ".join({"awkward": "Awkward", "scipy": "SciPy"}[name] for name in installed())
        ways: dict[str, tuple[str, str | None]] = {name: (code, alone) for name, code in SCRIPTS.items()}
        pairs = [("import numpy", "first conversion")]
        if others:
            ways |= {f"{name}, {others} installed": (code, None) for name, code in SCRIPTS.items()}
            pairs.append((f"import numpy, {others} installed", f"first conversion, {others} installed"))
        for code, path in ways.values():  # bytecode and kernels into their caches
            run(code, path)
        run(TEN, alone)
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in [*ways, COLD]}
        draw, numba = random.Random(0), False
        for turn in range(runs):
            names = [*ways, *([COLD] if turn % 3 == 0 else [])]  # which may take seconds
            draw.shuffle(names)
            for name in names:
                if name != COLD:
                    times[name].append(run(*ways[name])[:2])
                    continue
                with tempfile.TemporaryDirectory() as cache:
                    wall, cpu, said = run(TEN, alone, pathlib.Path(cache))
                times[name].append((wall, cpu))
                numba = said == "True"
    found = {
        name: quartiles([wall for wall, _ in several]) | {"cpu": min(cpu for _, cpu in several)}
        for name, several in times.items()
    }
    for t in found.values():
        del t["p10"]
    cold = {"cpu": found[COLD]["cpu"] - found["import numpy"]["cpu"], "numba": numba}
    return {"times": found, "pairs": pairs, "cold": cold, "from": where(numba)}


def main() -> None:
    """Measure and print."""
    found = measure(int(sys.argv[1]) if len(sys.argv) > 1 else 21)
    for name, t in found["times"].items():  # type: ignore[attr-defined]
        print(f"{name:56} {t['min'] * 1e3:6.0f} ms, median {t['median'] * 1e3:.0f}, of the CPU {t['cpu'] * 1e3:.0f}")
    print(found["cold"], found["from"])


if __name__ == "__main__":
    main()
