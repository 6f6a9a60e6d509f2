"""Encodings in JAX's transforms: as pytrees, whose leaves are the arrays of items and whose structure is static.

JAX is told of them when it is imported; there is nothing to call.
"""

from .pytrees import register as register

__all__ = ["register"]
register()
