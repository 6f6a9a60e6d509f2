"""The batches that are measured: fixed seeds, log-normal lengths, and the lengths of real sentences."""

from __future__ import annotations

import ast
import functools
import pathlib
import re
import sysconfig
from typing import Any, NamedTuple

import numpy as np

import seqformats as sf

from .peers import ak, pa, torch


class Shape(NamedTuple):
    """So many sequences, of about so many items, of an item shape."""

    n: int
    mean: int
    item: tuple[int, ...]
    dtype: str = "float32"


SHAPES = {
    "tiny": Shape(8, 15, (96,)),
    "small": Shape(128, 25, (96,)),
    "wide": Shape(64, 60, (768,)),
    "many": Shape(20_000, 25, (64,)),
    "ids": Shape(10_000, 200, (), "int64"),
    "short": Shape(100_000, 5, (4,)),
    "skewed": Shape(1_001, 20, (8,)),  # one sequence of 10,000 items among 1,000 of 10
    "text": Shape(2_000, 15, (64,)),  # as long as sentences are
}
FLOATS = tuple(name for name, shape in SHAPES.items() if shape.dtype == "float32")
LARGE = ("wide", "many", "ids", "short")
"""Where more than one thread has something to do."""

SPREAD = 0.5  # the sigma of the log-normal lengths, cut at twice their mean, as batches of similar lengths are


@functools.cache
def sentence_lengths(count: int) -> tuple[int, ...]:
    """How many words sentences have: those in the docstrings of the standard library, in the order of its files."""
    found: list[int] = []
    for path in sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*.py")):
        try:
            nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in nodes:
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                text = ast.get_docstring(node) or ""
                words = (len(re.findall(r"\w+", sentence)) for sentence in re.split(r"[.!?]\s|\n\s*\n", text))
                found += [count for count in words if count]
        if len(found) >= count:
            break
    return tuple(found[:count])


def lengths_of(name: str) -> np.ndarray:
    """The lengths of a shape's sequences, always the same; every one has an item, as some peers ask."""
    shape = SHAPES[name]
    if name == "skewed":
        lengths = np.full(shape.n, 10)
        lengths[shape.n // 3] = 10_000
    elif name == "text":
        lengths = np.array(sentence_lengths(shape.n))
    else:
        lengths = log_normal(shape.n, shape.mean)
    return lengths.astype(np.int64)


def log_normal(n: int, mean: int) -> np.ndarray:
    """`n` lengths with a long tail, the same in each run."""
    drawn = np.random.default_rng(0).lognormal(np.log(mean) - SPREAD**2 / 2, SPREAD, n)
    return np.clip(drawn.round(), 1, 2 * mean).astype(np.int64)


class Batch:
    """One batch in every form that somebody takes, in one array library; a form is made when it is first asked for."""

    def __init__(self, name: str, arrays: str, device: str = "cpu") -> None:
        self.name, self.arrays, self.device = name, arrays, device
        self.shape = SHAPES[name]
        self.lengths = lengths_of(name)
        self.n, self.rows = self.lengths.size, int(self.lengths.sum())
        self.longest = int(self.lengths.max())
        self.item = self.shape.item
        self.row_bytes = np.dtype(self.shape.dtype).itemsize * int(np.prod(self.item, dtype=int))
        self.bytes = self.rows * self.row_bytes
        self.padded_bytes = self.n * self.longest * self.row_bytes
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths)])

    def put(self, x: np.ndarray) -> Any:
        """An array in the library and on the device of this batch."""
        return x if self.arrays == "NumPy" else torch.from_numpy(x).to(self.device)

    @functools.cached_property
    def flat(self) -> Any:
        """The items of all sequences, one after the other."""
        rng = np.random.default_rng(1)
        if self.shape.dtype == "int64":
            return self.put(rng.integers(0, 30_000, self.rows))
        return self.put(rng.standard_normal((self.rows, *self.item), np.float32))

    @functools.cached_property
    def rows_of_ones(self) -> Any:
        """One item a sequence."""
        return self.put(np.random.default_rng(2).standard_normal((self.n, *self.item), np.float32))

    @functools.cached_property
    def items(self) -> list[Any]:
        """An array of its own for each sequence."""
        if self.arrays == "NumPy":
            return [x.copy() for x in np.split(self.flat, self.offsets[1:-1])]
        return [x.clone() for x in torch.split(self.flat, self.lengths.tolist())]

    @functools.cached_property
    def ragged(self) -> sf.Ragged:
        return sf.Ragged(self.flat, self.lengths)

    @functools.cached_property
    def padded(self) -> sf.Padded:
        return sf.convert(sf.Ragged(self.flat, self.lengths), sf.Padded)

    @functools.cached_property
    def masked(self) -> sf.Masked:
        return sf.convert(sf.Ragged(self.flat, self.lengths), sf.Masked)

    @functools.cached_property
    def packed(self) -> sf.Packed:
        return sf.convert(sf.Ragged(self.flat, self.lengths), sf.Packed)

    # what peers take

    @functools.cached_property
    def flat2(self) -> Any:
        """The items with one axis, as Thinc wants them."""
        return self.flat.reshape(self.rows, -1)

    @functools.cached_property
    def lengths32(self) -> np.ndarray:
        return self.lengths.astype(np.int32)

    @functools.cached_property
    def counts(self) -> Any:
        """The lengths as a tensor beside the data."""
        return torch.from_numpy(self.lengths.copy()).to(self.device)

    @functools.cached_property
    def ends(self) -> Any:
        """The offsets as a tensor beside the data."""
        return torch.from_numpy(self.offsets.copy()).to(self.device)

    @functools.cached_property
    def jagged(self) -> Any:
        """A nested tensor; without `max_seqlen` it would be padded to the number of all rows."""
        return torch.nested.nested_tensor_from_jagged(
            self.flat, self.ends, min_seqlen=int(self.lengths.min()), max_seqlen=self.longest
        )

    @functools.cached_property
    def awkward(self) -> Any:
        return ak.unflatten(self.flat, self.lengths)

    @functools.cached_property
    def arrow(self) -> Any:
        return pa.LargeListArray.from_arrays(pa.array(self.offsets), pa.array(self.flat))

    @functools.cached_property
    def column(self) -> Any:
        """Of each row of a column of sequences: does it belong to one?  (n, longest)"""
        return self.put(np.arange(self.longest) < self.lengths[:, None])
