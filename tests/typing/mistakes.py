"""Thirty mistakes that users make, one a line marked `mistake`; read by type checkers and never run.

`tests/test_typing.py` counts how many of them mypy and pyright find.
"""

# ruff: noqa: B018, F841
from typing import Any

import numpy as np

import seqformats as sf

DATA = np.zeros(5)


def options_of_conversions(x: sf.Ragged[np.ndarray], y: sf.Masked[np.ndarray]) -> None:
    sf.convert(x, sf.Masked, sied="left")  # mistake: a misspelt option
    sf.convert(x, sf.Masked, side="middle")  # mistake: there are two sides
    sf.convert(x, sf.Padded, side="left")  # mistake: time-major batches have no side
    sf.convert(x, sf.Ragged, width=8)  # mistake: flat rows have no width
    sf.convert(y, sf.Packed, fill=-1)  # mistake: nothing is padded in Packed
    sf.convert(x, sf.Padded, width=8.0)  # mistake: a width is a whole number
    sf.convert([[1], [2, 3]], sf.Masked, max_length=8)  # mistake: an option of another library


def targets_of_conversions(x: sf.Ragged[np.ndarray], y: sf.Masked[np.ndarray]) -> None:
    sf.convert(x, y)  # mistake: an encoding instead of its class
    sf.convert(x, "Masked")  # mistake: a name instead of the class
    sf.convert(x)  # mistake: no target
    back: sf.Ragged[Any] = sf.convert(x, sf.Masked)  # mistake: the target is what comes back


def building(x: sf.Ragged[np.ndarray]) -> None:
    sf.Ragged(DATA)  # mistake: no lengths
    sf.Ragged(DATA, [2.0, 3.0])  # mistake: lengths are whole numbers
    sf.Ragged([[1, 2], [3]], [2, 1])  # mistake: nested lists instead of an array
    sf.Masked(DATA, [2, 3], "middle")  # mistake: there are two sides
    sf.LoD(DATA, [0, 2, 5])  # mistake: one level instead of a list of levels
    sf.Padded(DATA, [2, 3])  # mistake: lengths and indices are missing


def attributes(x: sf.Ragged[np.ndarray], y: sf.Masked[np.ndarray], z: sf.LoD[np.ndarray]) -> None:
    x.lengths()  # mistake: the lengths of a Ragged are a field
    y.masks  # mistake: it is called mask
    x.mask  # mistake: a Ragged has none
    z.lengths[0]  # mistake: of a LoD lengths is a method
    x.lengths = np.array([2, 2])  # mistake: an encoding never changes


def operations(x: sf.Ragged[np.ndarray]) -> None:
    sf.reduce_sum(x, empty="rise")  # mistake: it is called "raise"
    sf.reduce_sum(x, axis=0)  # mistake: an option of NumPy
    sf.window(x, 1.5, 0)  # mistake: neighbours are counted
    _, pullback = sf.vjp(sf.softmax, x)
    pullback()  # mistake: a pullback takes a gradient


def wrappers_and_search(x: sf.Ragged[np.ndarray], step: Any) -> None:
    sf.with_masked(sied="left")  # mistake: a misspelt option
    sf.with_padded(np.abs, side="left")  # mistake: time-major batches have no side
    sf.beam_search(step, None, start=1, end=0, beam_size=2, max_new_tokens=8, rule="huggingface")  # mistake: "hf"
    sf.beam_search(step, None, start=1, end=0, max_new_tokens=8)  # mistake: no beam_size
