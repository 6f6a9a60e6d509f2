"""Checks of an installation: `doctor`, and the answer of ``python -m seqformats``.

No package is imported that need not be there, Numba neither, and no GPU is touched unless that is asked for.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from . import core
from .errors import KIND, DeviceError, quote
from .formats import Ragged
from .launch.threads import num_threads
from .lazy_import import import_now
from .native import code, cpu, cubins, store
from .native.loading import check_memory

_MAIN_PACKAGES = ("numpy", "numba", "numba-cuda", "torch", "cupy", "ml_dtypes")
"""Whose versions matter to what runs."""
_MORE = ("llvmlite", "jax", "pyarrow", "thinc", "transformers", "matplotlib")
VARIABLES = (
    "SEQFORMATS_CACHE",
    "SEQFORMATS_CACHE_DIR",
    "SEQFORMATS_CORE",
    "SEQFORMATS_JIT",
    "SEQFORMATS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "NUMBA_CACHE_DIR",
    "NUMBA_DISABLE_JIT",
    "NUMBA_ENABLE_CUDASIM",
    *cpu.CHANGES_CODE,
)
"""Those of the environment that change what runs, or where it is kept."""

OK, NOTE, PROBLEM = "ok", "note", "problem"


class Check(NamedTuple):
    """One thing that was looked at."""

    name: str
    """What it is about, in a word or two."""
    state: str
    """"ok"; "note" for what is right but worth to know; "problem" for what should be changed."""
    text: str
    """What was found."""
    advice: str = ""
    """What to do about it; "" where nothing has to be done."""


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """Result of `doctor`, shown as a line per check.

    Parameters
    ----------
    checks : tuple of checks
        Each has the fields ``name``, ``state`` ("ok", "note" or "problem"), ``text`` and ``advice``.

    Examples
    --------
    >>> import seqformats as sf
    >>> found = sf.doctor()
    >>> [check.name for check in found.checks][:3]
    ['versions', 'machine code', 'CPU']
    >>> found.checks[0].text.split(", ")[0] == f"seqformats {sf.__version__}"
    True
    """

    checks: tuple[Check, ...]

    @property
    def problems(self) -> tuple[Check, ...]:
        """The checks that have found something to be changed."""
        return tuple([check for check in self.checks if check.state == PROBLEM])

    def __repr__(self) -> str:
        wide = max((len(check.name) for check in self.checks), default=0)
        lines = []
        for name, state, text, advice in self.checks:
            lines.append(f"{state:8}{name:{wide}}  {text}")
            if advice:
                lines.append(f"{'':8}{'':{wide}}  -> {advice}")
        return "\n".join(lines)


def doctor(*, cuda: bool = False) -> Diagnosis:
    """Look whether the library runs here as it should: versions, machine code, cache, threads, devices.

    Nothing is compiled, and neither Numba nor a package that need not be there is imported.

    Parameters
    ----------
    cuda : bool
        Load the package for CUDA, open a context on each GPU and move some bytes there and back; else nothing of it is
        touched, and all that is said of GPUs is what is installed.

    Returns
    -------
    Diagnosis
        A tuple of `checks`, each with `name`, `state`, `text` and `advice`, and those that are `problems`.

    Raises
    ------
    TypeError
        Where `cuda` is not True or False.

    See Also
    --------
    explain : Which kernels a conversion runs.

    Notes
    -----
    ``python -m seqformats doctor`` prints the same, and ends with the status 1 where there is a problem.

    Examples
    --------
    >>> import seqformats as sf
    >>> found = sf.doctor()
    >>> {check.state for check in found.checks} <= {"ok", "note", "problem"}
    True
    >>> [check for check in found.problems if not check.advice]
    []
    """
    if not isinstance(cuda, bool):
        raise KIND(f"cuda must be True or False, not {quote(cuda)}")
    checks = (
        _versions(),
        _code(),
        _cpu(),
        *_check_outdated(),
        _cache(),
        _extension(),
        _threads(),
        _gpus(cuda),
        _environment(),
    )
    return Diagnosis(checks)


# --- versions --------------------------------------------------------------------------------------------------------


def version_of(package: str) -> str:
    """The version of a package, which is not imported; "" where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def versions(packages: tuple[str, ...] = _MAIN_PACKAGES) -> str:
    """The version of this library, that of Python, and those of the packages that are installed."""
    own = sys.modules["seqformats"].__version__  # the package itself, which loads this file and not the other way round
    found = [f"{name} {version}" for name in packages if (version := version_of(name))]
    return ", ".join([f"seqformats {own}", f"Python {platform.python_version()}", *found])


def _versions() -> Check:
    told = versions((*_MAIN_PACKAGES, *_MORE))
    wrong = list(_too_old())
    if wrong:
        return Check("versions", PROBLEM, told, f"pip install {' '.join(wrong)}")
    return Check("versions", OK, told)


def _too_old() -> Iterator[str]:
    """List packages that are too old for this library, as pip takes them."""
    try:
        wanted = importlib.metadata.requires("seqformats") or []
    except importlib.metadata.PackageNotFoundError:  # sources that are on the path
        wanted = []
    seen = set()
    for requirement in wanted:
        found = re.match(r"([\w.-]+)(?:\[[^]]*\])?>=([\d.]+)", requirement)
        if found is None or found[1] in seen:
            continue
        seen.add(found[1])
        have = version_of(found[1])
        missing = not have and "extra ==" not in requirement
        if missing or (have and _numbers(have) < _numbers(found[2])):
            yield f"'{found[1]}>={found[2]}'"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple([int(number) for number in re.findall(r"\d+", version.partition("+")[0])[:3]])


# --- machine code ----------------------------------------------------------------------------------------------------


def _code() -> Check:
    told, reason = code.whence(), code.why_not_shipped()
    if code.is_interpreted():
        return Check("machine code", NOTE, told, "unset it: interpreted kernels are a hundred times slower")
    try:
        check_memory()
    except DeviceError as error:
        text, _, advice = str(error).partition("; ")
        return Check("machine code", PROBLEM if reason else NOTE, text if reason else f"{told}, but {text}", advice)
    if not code.in_use():
        return Check("machine code", NOTE, told, "kernels run, but each process compiles them; use CPython with a GIL")
    if not reason:
        return Check("machine code", OK, told)
    if "damaged" in reason and (code.SHIPPED / f"{cpu.level()}.table").exists():
        return Check("machine code", PROBLEM, told, "pip install --force-reinstall seqformats")
    if store.why_not():
        return Check("machine code", NOTE, told, "see the cache below")
    return Check("machine code", NOTE, told, "python -m seqformats compile fills the cache at once")


def _cpu() -> Check:
    level = cpu.level()
    machine = f"{platform.machine() or 'unknown'}, {platform.system()}"
    if not level:
        return Check("CPU", NOTE, f"{machine}; no code is shipped for it, Numba compiles for it")
    return Check("CPU", OK, f"{machine}, {level}")


def _check_outdated() -> Iterator[Check]:
    """Check that shipped code was made of these sources; nothing is said where none is in use."""
    if code.why_not_shipped() or not code.in_use():
        return
    names, advice = code.list_outdated(), "pip install --force-reinstall seqformats"
    if damage := code.damage():
        yield Check("shipped code", PROBLEM, damage, advice)
    elif names:
        text = f"that of {len(names)} kernels was made of other sources: {_some(names)}"
        yield Check("shipped code", PROBLEM, text, f"{advice}; until then they are compiled")
    else:
        yield Check("shipped code", OK, "its digest is right, and it was made of these sources")


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (" and others" if len(names) > 3 else "")


def cache() -> str:
    """The folder for compiled kernels, or why there is none."""
    reason = store.why_not()
    return f"none ({reason})" if reason else str(store.user_folder())


def _cache() -> Check:
    folder, reason = store.user_folder(), store.why_not()
    if folder is None:
        return Check("cache", NOTE, cache(), "kernels that were not shipped are compiled in each process")
    if reason:
        advice = "give SEQFORMATS_CACHE_DIR a folder that you may write and nobody else, or set SEQFORMATS_CACHE=0"
        return Check("cache", PROBLEM, f"{folder} is not used: {reason}", advice)
    if not folder.exists():
        return Check("cache", OK, f"{folder}, made with the first kernel that is compiled")
    sizes = _sizes(folder)
    return Check("cache", OK, f"{folder}: {len(sizes)} files, {sum(sizes) / 1e6:.1f} MB, yours and writable")


def _sizes(folder: Path) -> list[int]:
    """The bytes of each file of the cache; one that another process removes meanwhile has none."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                if entry.is_file(follow_symlinks=False):
                    found.append(entry.stat(follow_symlinks=False).st_size)
            except OSError:
                continue
    return found


def _extension() -> Check:
    """Check the extension, which stands before operations on small batches where it could be built."""
    advice = "install a C compiler, and seqformats again: small batches will be quicker"
    if core.IS_LEFT_OUT:
        return Check("extension", NOTE, "left out by SEQFORMATS_CORE=0; Python does what it would do")
    if core.extension is None:
        return Check("extension", NOTE, "not built here; Python does what it would do", advice)
    built = import_now(".core.build", __package__)
    if built.has_sources() and built.sources() != core.extension.SOURCES:
        return Check("extension", PROBLEM, "built of other sources", "pip install --editable . builds it anew")
    return Check("extension", OK, f"in use, {Path(core.extension.__file__).name}")


# --- the process -----------------------------------------------------------------------------------------------------


def _threads() -> Check:
    count, cpus = num_threads(), os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cpus
    told = f"{count} for large operations; {usable} of {cpus} CPUs may be used"
    if count < usable:
        return Check("threads", NOTE, told, "sf.set_num_threads(k) or SEQFORMATS_NUM_THREADS=k gives more")
    return Check("threads", OK, told)


def gpus() -> str:
    """The GPUs by name, or why there are none; this loads the package for CUDA."""
    try:
        devices = import_now(".launch.cuda", __package__).devices
    except Exception as error:  # whatever a CUDA package without a driver raises
        return f"none ({error})"
    return ", ".join(devices()) or "none"


_DRIVER = Path("/proc/driver/nvidia/version")


def _gpus(touch: bool) -> Check:
    package, driver, images = version_of("numba-cuda"), _driver(), cubins.bundle()
    if images is not None and (images.damage() or cubins.list_outdated()):
        told = images.damage() or f"the code for GPUs in {images.path.parent} is of another release, and is not used"
        return Check("GPUs", PROBLEM, told, "pip install --force-reinstall seqformats seqformats-cuda13")
    if not touch:
        told = f"numba-cuda {package}" if package else "numba-cuda is not installed"
        told += "" if images is None else "; code is shipped"
        told = f"{told}; {f'driver {driver}' if driver else 'no driver was found'}"
        if driver and not package and images is None:
            return Check("GPUs", NOTE, told, "pip install 'seqformats[cuda13]', or cuda12")
        return Check("GPUs", OK, f"{told}; not looked at", "--cuda, or cuda=True, opens a context" if driver else "")
    if not package:
        return Check("GPUs", NOTE, "numba-cuda is not installed", "pip install 'seqformats[cuda13]', or cuda12")
    found = gpus()
    if found.startswith("none"):
        state = PROBLEM if driver else NOTE
        return Check("GPUs", state, found, "install the driver of the GPU, or one that this numba-cuda supports")
    return _check_gpu(found)


def _driver() -> str:
    try:
        told = re.search(r"\d+\.\d+(\.\d+)?", _DRIVER.read_text())
    except OSError:
        return ""
    return told[0] if told else ""


def _check_gpu(found: str) -> Check:
    """A batch to the GPU, reduced there, and back."""
    import numpy as np

    to_device = import_now(".operations.library", __package__).to_device
    reduce_sum = import_now(".operations.sums", __package__).reduce_sum
    try:
        x = to_device(Ragged(np.arange(5, dtype=np.float32), [2, 0, 3]), "cuda")
        there: Any = reduce_sum(x)
        sums = np.asarray(there.copy_to_host()).tolist()
    except Exception as error:  # whatever a driver raises
        told = f"{found}; but a sum there ends in {type(error).__name__}: {error}"
        return Check("GPUs", PROBLEM, told, "see whether the driver and the extra, cuda12 or cuda13, fit each other")
    if sums != [1.0, 0.0, 9.0]:
        return Check("GPUs", PROBLEM, f"{found}; but a sum there gives {sums}", "please report it with this output")
    return Check("GPUs", OK, f"{found}; a sum there is right")


def _environment() -> Check:
    names = list(dict.fromkeys(VARIABLES))
    found = [f"{name}={os.environ[name]}" for name in names if os.environ.get(name)]
    return Check("environment", NOTE if found else OK, ", ".join(found) or "no variable is set that changes anything")
