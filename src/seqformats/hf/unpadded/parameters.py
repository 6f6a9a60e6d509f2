"""Parameters of a module's forward, and its arguments by name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@functools.cache
def names_of(kind: Hashable) -> list[str]:
    """Names of the parameters of a module's forward."""
    return [name for name in inspect.signature(kind.forward).parameters if name != "self"]  # type: ignore[attr-defined]


def name_arguments(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a forward by name."""
    return {**dict(zip(names_of(module.__class__), args, strict=False)), **kwargs}
