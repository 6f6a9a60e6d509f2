"""BLAKE2b (RFC 7693), as little as there is of it: what `hashlib` loads with it takes longer than a hundred kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_blake2b: Callable[..., Any]
try:
    from _blake2 import blake2b as _blake2b
except ImportError:
    from hashlib import blake2b as _blake2b


def digest(*parts: bytes) -> bytes:
    """Return the digest of all of them, one after the other; 32 bytes."""
    made = _blake2b(digest_size=32)
    for part in parts:
        made.update(part)
    return bytes(made.digest())
