"""Attention without padding, beside PyTorch's on rectangles with a mask; 8 heads of 64."""

from __future__ import annotations

from typing import Any

import numpy as np

import seqformats as sf

from .cells import Case, operation
from .data import Batch
from .peers import torch

HEADS, DEEP = 8, 64
MOST = 64
"""Sequences of a batch: a model takes no more at a time, and rectangles of all of them would need gigabytes."""


def three(b: Batch) -> tuple[list[np.ndarray], np.ndarray]:
    """Queries, keys and values over the first sequences of a batch, and their lengths."""
    rng, lengths = np.random.default_rng(7), b.lengths[:MOST]
    return [rng.standard_normal((int(lengths.sum()), HEADS, DEEP), np.float32) for _ in range(3)], lengths


def beside(b: Batch, causal: bool) -> Case:
    """The same on rectangles ``(n, heads, longest, 64)`` that are there already, and sequence by sequence."""
    items, lengths = three(b)
    q, k, v = (sf.Ragged(b.put(x), lengths) for x in items)
    if not torch:
        return Case(lambda: sf.attention(q, k, v, causal=causal), {}, exact=False)
    tensors = [sf.Ragged(torch.from_numpy(x), lengths) for x in items]
    blocks = [sf.convert(x, sf.Masked) for x in tensors]
    rectangles = [x.data.transpose(1, 2).contiguous() for x in blocks]
    there = blocks[0].mask
    seen = there[:, None, None, :]
    if causal:
        seen = seen & torch.ones(there.shape[1], there.shape[1], dtype=torch.bool).tril()
    parts = [[part.transpose(0, 1)[None] for part in torch.split(x.data, lengths.tolist())] for x in tensors]
    dot = torch.nn.functional.scaled_dot_product_attention
    peers: dict[str, Any] = {
        "PyTorch, padded": lambda: dot(*rectangles, attn_mask=seen).transpose(1, 2)[there],
        "PyTorch, one by one": lambda: torch.cat(
            [dot(*each, is_causal=causal)[0].transpose(0, 1) for each in zip(*parts, strict=True)]
        ),
    }
    return Case(lambda: sf.attention(q, k, v, causal=causal), peers, exact=False)


@operation("attention", ["tiny", "small", "wide", "text"], cuda=False)
def _(b: Batch) -> Case:
    return beside(b, causal=False)


@operation("attention, causal", ["tiny", "small", "wide", "text"], cuda=False)
def _(b: Batch) -> Case:
    return beside(b, causal=True)
