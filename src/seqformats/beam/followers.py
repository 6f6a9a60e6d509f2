"""Objects of the user that are told how rows go on."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def with_tokens(follow: Callable[..., Any]) -> bool:
    """Tell whether `follow` wants the new tokens too: it needs a second argument, or calls it tokens."""
    try:
        given = list(inspect.signature(follow).parameters.values())
    except (TypeError, ValueError):  # of a builtin nobody knows
        return False
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    second = [one for one in given if one.kind in kinds][1:2]
    return any(one.name == "tokens" or one.default is one.empty for one in second)
