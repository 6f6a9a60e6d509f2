"""The libraries that are compared with, imported when they are first used: a cell without its peer goes on alone."""

import importlib
import importlib.metadata
import importlib.util
from typing import Any

missed: list[str] = []
"""The names of peers that were called though they are not installed, as often as they were."""


class _Missing:
    """Anything of a peer that is not installed: a candidate can be made of it, and when it runs it is missed."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, attribute: str) -> Any:
        return self

    def __getitem__(self, index: Any) -> Any:
        return self

    def __call__(self, *_: Any, **__: Any) -> Any:
        missed.append(self.__name__)
        return self


class _Peer:
    """A module that is imported when something of it is asked for; false where it is not installed."""

    def __init__(self, name: str) -> None:
        self.__name__ = name
        self._there = importlib.util.find_spec(name.partition(".")[0]) is not None

    def __bool__(self) -> bool:
        return self._there

    def __getattr__(self, attribute: str) -> Any:
        if not self._there:
            return _Missing(self.__name__)
        found = getattr(importlib.import_module(self.__name__), attribute)
        setattr(self, attribute, found)  # from now on as quick as in the module
        return found


class _NumpyOps:
    """Thinc's operations on NumPy arrays."""

    def __bool__(self) -> bool:
        return bool(thinc)

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(thinc.NumpyOps() if thinc else thinc, attribute)
        setattr(self, attribute, found)
        return found


torch: Any = _Peer("torch")
ak: Any = _Peer("awkward")
pa: Any = _Peer("pyarrow")
pd: Any = _Peer("pandas")
pl: Any = _Peer("polars")
rapidfuzz: Any = _Peer("rapidfuzz")
jiwer: Any = _Peer("jiwer")
pyctcdecode: Any = _Peer("pyctcdecode")
thinc: Any = _Peer("thinc.api")
transformers: Any = _Peer("transformers")
ops: Any = _NumpyOps()

_defaults: dict[str, int] = {}


def versions() -> dict[str, str]:
    """What is compared, by name."""
    found = {}
    for name in (
        "numpy",
        "numba",
        "seqformats",
        "torch",
        "thinc",
        "awkward",
        "pyarrow",
        "rapidfuzz",
        "jiwer",
        "pyctcdecode",
        "transformers",
    ):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            if importlib.util.find_spec(name):
                found[name] = importlib.import_module(name).__version__
    return found


def set_threads(k: int | None) -> None:
    """One number of threads for everybody; None: the number that each takes by default."""
    import seqformats as sf

    sf.set_num_threads(k)
    if torch:
        torch.set_num_threads(k or _defaults.setdefault("torch", torch.get_num_threads()))
    if pa:
        pa.set_cpu_count(k or _defaults.setdefault("pyarrow", pa.cpu_count()))


def remember_threads() -> None:
    """Note what each takes by default, before anybody changes it."""
    if torch:
        _defaults["torch"] = torch.get_num_threads()
    if pa:
        _defaults["pyarrow"] = pa.cpu_count()
