"""Functions of PyTorch that are called with encodings: those that treat each number alone, errors for others."""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Mapping
from typing import Any

from .. import core, hints
from ..arrays.by_item import OWNERS
from ..arrays.library import Operand
from ..errors import KIND
from ..formats.arithmetic import map_one, map_two
from ..formats.pairs import is_own
from ..operations.elementwise import elementwise, evaluate, matrix_product, refuse

_OF_LAYERS = ("linear", "layer_norm", "rms_norm", "embedding", "bilinear", "group_norm", "normalize", "prelu")


@functools.cache
def _functions() -> dict[Any, str]:
    """Return the functions that this release of PyTorch has, and products of matrices, with their names here."""
    torch: Any = sys.modules["torch"]  # which has called
    found: dict[Any, str] = {}
    for owner, names in OWNERS.items():
        place = operator.attrgetter(owner)(torch) if owner else torch
        found |= {getattr(place, name): "item" for name in names.split() if hasattr(place, name)}
    found |= dict.fromkeys((torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__), "product")
    return found | {torch.Tensor.__rmatmul__: "reflected product"}


def torch_function(
    function: Callable[..., Any], operands: tuple[Operand, ...], options: Mapping[str, object]
) -> Operand:
    """Call a function of PyTorch with batches among its arguments."""
    role = _functions().get(function)
    if role == "item" and not options and is_own(operands[0]):
        if len(operands) <= 2:
            return map_one(function, operands[0]) if len(operands) == 1 else map_two(function, *operands)
        found: Operand | None = core.map_items(function, *operands)
        if found is not None:
            return found
    name = getattr(function, "__name__", str(function))
    if role in ("product", "reflected product") and len(operands) == 2 and not options:
        return matrix_product(*(operands if role == "product" else operands[::-1]))
    if role != "item":
        hint = "" if name in _OF_LAYERS else hints.for_function(name)
        refuse(f"{_module_of(function)}.{name}", hint)
    for option in ("out", "inplace"):
        if options.get(option) is not None and options[option] is not False:
            raise KIND(f"torch.{name} of a batch makes a new one and takes no {option}=, since batches do not change")
    if len(operands) == 2 and name.startswith("__"):
        return elementwise(function, operands)
    return evaluate(function, operands, options)


def _module_of(function: Callable[..., Any]) -> str:
    """Return the module of a function, for a message."""
    owner = getattr(function, "__objclass__", None)
    module = getattr(function, "__module__", None) or "torch"
    return "torch.Tensor" if owner is not None else module if module.startswith("torch.nn.functional") else "torch"
