"""Registrations of encodings with PyTorch, right after it is imported, or when this package is.

Leaves of its pytrees are the arrays that hold the items; the structure is what `tree_map` leaves alone.  ``torch.load``
trusts encodings, which are built by constructors that check everything, with ``weights_only=True`` too.  A loader's
``default_collate`` joins encodings.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.serialization import add_safe_globals
from torch.utils import _pytree
from torch.utils.data._utils.collate import default_collate_fn_map

from .. import formats
from ..arrays import is_array
from ..formats import Encoding, List, Pairs
from ..formats.encoding import restored
from ..formats.pairs import pair
from ..formats.skeleton import Skeleton
from ..lazy_import import import_now

_KINDS: tuple[type[Encoding[Any]], ...] = (
    formats.Chunks,
    formats.List,
    formats.LoD,
    formats.Masked,
    formats.Packed,
    formats.Padded,
    formats.Ragged,
)


def _flatten(x: Encoding[Any]) -> tuple[list[Any], Skeleton]:
    return x._leaves(), Skeleton.from_encoding(x)


def _unflatten(leaves: Sequence[Any], skeleton: Skeleton) -> Encoding[Any]:
    return skeleton.fill([_whole(leaf) for leaf in leaves])


def _whole(leaf: Any) -> Any:
    """Make rows that can be read of what a function of tensors has left with strides."""
    if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided and not leaf.is_contiguous():
        return leaf.contiguous()
    return leaf


def _flatten_with_keys(x: Encoding[Any]) -> tuple[list[tuple[Any, Any]], Skeleton]:
    leaves, skeleton = _flatten(x)
    keys: list[Any] = [_pytree.GetAttrKey("data")]
    if isinstance(x, List):
        keys = [_pytree.SequenceKey(i) for i in range(len(leaves))]
    return list(zip(keys, leaves, strict=True)), skeleton


def _dumpable(skeleton: Skeleton) -> str:
    return json.dumps(skeleton.dump())


def _from_dumpable(kind: type[Encoding[Any]]) -> Callable[[Any], Skeleton]:
    def load(text: str) -> Skeleton:
        return Skeleton.load(kind, json.loads(text))

    return load


def _join(samples: Sequence[Any], **_: object) -> Any:
    """The samples of a loader, each a batch, as one batch of tensors."""
    to = import_now("..operations.library", __package__).to
    if isinstance(samples[0], Pairs):
        return Pairs(_join([pairs.one for pairs in samples]), _join([pairs.two for pairs in samples]))
    if is_array(samples[0]):
        return torch.cat([to(rows, "torch") for rows in samples])
    return to(import_now("..operations.batch", __package__).join_batches(list(samples)), "torch")


CALLED = (_flatten, _unflatten, _flatten_with_keys, _join)
"""What PyTorch calls, which its compiler is told of."""

for _kind in _KINDS:
    _pytree.register_pytree_node(
        _kind,
        _flatten,
        _unflatten,
        serialized_type_name=f"seqformats.{_kind.__name__}",
        to_dumpable_context=_dumpable,
        from_dumpable_context=_from_dumpable(_kind),
        flatten_with_keys_fn=_flatten_with_keys,
    )
_pytree.register_pytree_node(
    Pairs,
    lambda x: ([x.one, x.two], None),
    lambda members, _: pair(*members),
    serialized_type_name="seqformats.Pairs",
    to_dumpable_context=lambda _: None,
    from_dumpable_context=lambda _: None,
    flatten_with_keys_fn=lambda x: (
        [(_pytree.GetAttrKey("one"), x.one), (_pytree.GetAttrKey("two"), x.two)],
        None,
    ),
)
add_safe_globals([*_KINDS, Pairs, restored])
default_collate_fn_map.update({Encoding: _join, Pairs: _join})
