"""What starting costs: importing the library, and the first conversion of a process with a warm kernel cache.

    python benchmarks/startup.py [runs]

Fresh processes, alternating: NumPy alone against NumPy and seqformats; a script that imports Numba and runs one
cached kernel of its own against a script that makes one conversion.  Medians, and the spread between the quartiles.
"""

import pathlib
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
}


def seconds(code: str, folder: str) -> float:
    """How long a fresh process takes for `code`."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)
    return time.perf_counter() - begin


def main() -> None:
    """Measure and print."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 21
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "one_kernel.py").write_text(KERNEL)
        times: dict[str, list[float]] = {name: [] for name in SCRIPTS}
        for code in SCRIPTS.values():  # bytecode and kernels into their caches
            seconds(code, folder)
        for _ in range(runs):
            for name, code in SCRIPTS.items():
                times[name].append(seconds(code, folder))
    middle = {}
    for name, found in times.items():
        low, middle[name], high = statistics.quantiles(found, n=4)
        print(f"{name:30} {middle[name] * 1e3:6.0f} ms   quartiles {low * 1e3:.0f} to {high * 1e3:.0f}")
    bare, library, kernel, conversion = middle.values()
    print(f"seqformats over NumPy: {(library - bare) * 1e3:.0f} ms")
    print(f"first conversion over one cached kernel: {(conversion - kernel) * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
