"""What starting costs: importing the library, and the first conversion of a process with a warm or a cold kernel cache.

    python benchmarks/startup.py [runs]

Fresh processes, alternating: NumPy alone against NumPy and seqformats; a script that imports Numba and runs one
cached kernel of its own against a script that makes one conversion.  Medians, and the spread between the quartiles.
"""

import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

KERNEL = """
from numba import njit

@njit(cache=True)
def total(x):
    return x.sum()
"""

SCRIPTS = {
    "import numpy": "import numpy",
    "import numpy, seqformats": "import numpy, seqformats",
    "one cached kernel of Numba": "import numpy as np; from one_kernel import total; total(np.zeros(3))",
    "one conversion": "import numpy as np, seqformats as sf; sf.convert([np.zeros((3, 4))], sf.Padded)",
    "ten operations": """
import numpy as np, seqformats as sf
items = [np.ones((k, 4), np.float32) for k in (3, 1, 2)]
x = sf.convert(items, sf.Ragged)
for kind in (sf.Padded, sf.Masked, sf.Packed):
    sf.convert(sf.convert(x, kind), sf.Ragged)
sf.reduce_sum(x), sf.reduce_mean(x), sf.reduce_max(x), sf.softmax(x), sf.expand_as(np.ones((3, 4)), x), x[[2, 0]]
""",
    "one reduction": "import numpy as np, seqformats as sf; sf.reduce_sum(sf.Ragged(np.zeros((3, 4)), [1, 2]))",
}
COLD = ("one conversion", "ten operations")


def seconds(code: str, folder: str, cache: str | None = None) -> float:
    """How long a fresh process takes for `code`."""
    environment = dict(os.environ, **({"NUMBA_CACHE_DIR": cache} if cache else {}))
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # a user's Python keeps what it has compiled
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, env=environment)
    return time.perf_counter() - begin


def measure(runs: int = 21) -> dict[str, dict[str, float]]:
    """Median and quartiles in seconds, by name."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "one_kernel.py").write_text(KERNEL)
        times: dict[str, list[float]] = {name: [] for name in SCRIPTS}
        times |= {f"{name}, cold cache": [] for name in COLD}
        for code in SCRIPTS.values():  # bytecode and kernels into their caches
            seconds(code, folder)
        for turn in range(runs):
            for name, code in SCRIPTS.items():
                times[name].append(seconds(code, folder))
            for name in COLD if turn % 3 == 0 else ():  # seconds each
                cold = str(pathlib.Path(folder, "cold"))
                shutil.rmtree(cold, ignore_errors=True)
                times[f"{name}, cold cache"].append(seconds(SCRIPTS[name], folder, cold))
    found = {}
    for name, several in times.items():
        low, middle, high = statistics.quantiles(several, n=4, method="inclusive") if len(several) > 1 else several * 3
        found[name] = {"median": middle, "low": low, "high": high, "turns": len(several)}
    return found


def main() -> None:
    """Measure and print."""
    found = measure(int(sys.argv[1]) if len(sys.argv) > 1 else 21)
    for name, t in found.items():
        quartiles = f"quartiles {t['low'] * 1e3:.0f} to {t['high'] * 1e3:.0f}"
        print(f"{name:30} {t['median'] * 1e3:6.0f} ms   {quartiles}")
    milliseconds = {name: t["median"] * 1e3 for name, t in found.items()}
    print(f"seqformats over NumPy: {milliseconds['import numpy, seqformats'] - milliseconds['import numpy']:.0f} ms")
    over = milliseconds["one conversion"] - milliseconds["one cached kernel of Numba"]
    print(f"first conversion over one cached kernel: {over:.0f} ms")


if __name__ == "__main__":
    main()
