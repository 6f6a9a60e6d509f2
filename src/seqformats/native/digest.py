"""SHA-256, as little as there is of it: what `hashlib` loads with it takes longer than a hundred kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_sha256: Callable[[bytes], Any]
try:
    from _sha2 import sha256 as _sha256  # type: ignore[import-not-found,no-redef]
except ImportError:
    try:
        from _sha256 import sha256 as _sha256  # type: ignore[import-not-found,no-redef]  # before Python 3.12
    except ImportError:
        from hashlib import sha256 as _sha256


def digest(*parts: bytes) -> bytes:
    """Of all of them, one after the other."""
    made = _sha256(b"")
    for part in parts:
        made.update(part)
    return bytes(made.digest())
