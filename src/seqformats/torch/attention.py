"""Arguments for the attention functions of PyTorch, flash-attn and other libraries, made of a batch."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ..arrays import NUMPY, Array
from ..errors import ARGUMENT, CHOICE, COUNTS, KIND, OVERFLOW, import_extra, quote
from ..formats import Masked
from ..formats.structure import Structure, flag, whole
from ..launch.kernel import kernel
from ..memory_checks import allocate
from ..operations.annotations import Counts, Lengths
from ..operations.attention import position_ids, read_structure, segment_ids
from ..operations.rearrange import per_sequence
from .masks import mask_mod_of
from .structure import tensor_of

flex_blocks = kernel("flex_blocks")

Tensor: TypeAlias = Any  # torch.Tensor, of a package that need not be there
BlockMask: TypeAlias = Any  # torch.nn.attention.flex_attention.BlockMask

VARLEN_ARGUMENTS = {
    "flash_attn": ("cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k"),
    "torch": ("cu_seq_q", "cu_seq_k", "max_q", "max_k"),
    "hf": ("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k"),
    "te": ("cu_seqlens_q", "cu_seqlens_kv", "max_seqlen_q", "max_seqlen_kv"),
    "megatron": ("cu_seqlens_q", "cu_seqlens_kv", "max_seqlen_q", "max_seqlen_kv"),
    "fla": ("cu_seqlens",),
}
"""Names of the arguments in each library: cumulated lengths of queries and keys, and the longest of each."""


def varlen(
    q: Lengths,
    k: Lengths | None = None,
    *,
    names: str = "flash_attn",
    max_as: str = "int",
) -> dict[str, Any]:
    """Make the keyword arguments of attention over sequences of different lengths.

    Parameters
    ----------
    q : an encoding, a list of tensors, or n lengths
        The sequences of the queries.
    k : the same, optional
        The n sequences of the keys and values; by default those of `q`.
    names : str
        The library whose names are used: "flash_attn" for ``flash_attn_varlen_func``; "torch" for
        ``torch.nn.attention.varlen.varlen_attn``; "hf" for the forward of a model of transformers; "te" for Transformer
        Engine's ``DotProductAttention``; "megatron" for Megatron's ``PackedSeqParams``; "fla" for
        flash-linear-attention.
    max_as : "int" or "tensor"
        The type of the longest lengths: int, or a tensor of int32 with shape () on the host, so that `torch.compile`
        makes no new program for each value.

    Returns
    -------
    dict
        ``cu_seqlens_q``, ``cu_seqlens_k``: int32 tensors ``(n + 1,)`` on the device of `q`, which must not be changed;
        ``max_seqlen_q``, ``max_seqlen_k``; all under the names of the library.

        For "te" and "megatron" also ``qkv_format``, and ``cu_seqlens_q_padded``, ``cu_seqlens_kv_padded``: where each
        sequence begins in memory.  These differ from the others only for a `Masked` padded on the right, if the rows
        are its ``data.flatten(0, 1)``.  For "fla" ``cu_seqlens`` and its copy on the host, ``cu_seqlens_cpu``, both of
        int64.

    Raises
    ------
    ValueError
        For other `names`, or another `max_as`.
    StructureError
        If there are not as many sequences of keys as of queries, or 2^31 rows or more; and if `k` is given with "fla",
        which has the same sequences for both.
    TypeError
        If the argument is not a batch.

    See Also
    --------
    seqformats.cu_seqlens : Only the cumulated lengths, for arrays of any library.
    seqformats.torch.flex_mask : For FlexAttention.

    Notes
    -----
    The rows are the data of a `Ragged`, ``(rows, heads, width)``: ``flash_attn_varlen_func(q.data, k.data, v.data,
    **sf.torch.varlen(q, k), causal=True)``.

    Examples
    --------
    >>> import seqformats as sf
    >>> import torch
    >>> q = sf.Ragged(torch.zeros(3, 2, 8), [1, 2])
    >>> arguments = sf.torch.varlen(q)
    >>> arguments["cu_seqlens_q"], arguments["max_seqlen_k"]
    (tensor([0, 1, 3], dtype=torch.int32), 2)
    """
    torch = import_extra("torch", "torch")
    if names not in VARLEN_ARGUMENTS:
        raise CHOICE.as_error(
            ValueError, f"names must be one of {', '.join(map(repr, VARLEN_ARGUMENTS))}, not {quote(names)}"
        )
    if max_as not in ("int", "tensor"):
        raise CHOICE.as_error(ValueError, f'max_as must be "int" or "tensor", not {quote(max_as)}')
    of_q, like = read_structure(q)
    if names == "fla":
        if k is not None:
            raise COUNTS("flash-linear-attention has one cu_seqlens for queries and keys; leave k out")
        ends = tensor_of(of_q, "offsets", like if isinstance(like, torch.Tensor) else torch.empty(0), "int64")
        return {"cu_seqlens": ends, "cu_seqlens_cpu": tensor_of(of_q, "offsets", torch.empty(0), "int64")}
    of_k = of_q if k is None else read_structure(k)[0]
    if of_k.n != of_q.n:
        raise COUNTS(f"there are {of_q.n} sequences of queries, but {of_k.n} of keys")
    like = like if isinstance(like, torch.Tensor) else torch.empty(0)
    ends = [tensor_of(structure, "offsets", like, "int32") for structure in (of_q, of_k)]
    longest: list[Any] = [of_q.longest, of_k.longest]
    if max_as == "tensor":
        longest = [torch.tensor(each, dtype=torch.int32) for each in longest]
    made = dict(zip(VARLEN_ARGUMENTS[names], (*ends, *longest), strict=True))
    if names in ("te", "megatron"):
        begins = [_begins(x, end) for x, end in zip((q, q if k is None else k), ends, strict=True)]
        made |= {"cu_seqlens_q_padded": begins[0], "cu_seqlens_kv_padded": begins[1], "qkv_format": "thd"}
    return made


def _begins(x: Lengths, ends: Tensor) -> Tensor:
    """Find where sequences begin in memory, ``(n + 1,)``; in a `Masked` they begin at multiples of its width."""
    if not isinstance(x, Masked):
        return ends
    if x.side != "right":
        raise ARGUMENT("cumulated lengths are of sequences that begin their rows; pad the Masked on the right")
    return import_extra("torch", "torch").arange(len(ends), dtype=ends.dtype, device=ends.device) * x.data.shape[1]


def flex_mask(
    x: Lengths,
    *,
    causal: bool = False,
    window: int | tuple[int, int] | None = None,
    prefix: Counts | None = None,
    block: int | tuple[int, int] = 128,
    device: object = None,
) -> BlockMask:
    """Make a block mask for FlexAttention: each row of a batch sees the rows of its own sequence.

    Parameters
    ----------
    x : an encoding, a list of tensors, or n lengths
        The sequences, one after the other as in the data of a `Ragged`; of a `LoD` those of the innermost level.
    causal : bool
        True if a row sees only itself and what comes before it.
    window : int or (left, right), optional
        How many rows before and after itself a row sees; -1 is no limit.  A single number is for both.
    prefix : int or n integers, optional
        How many rows at the beginning of each sequence all its rows see, whatever `causal` and `window` say (a prefix
        language model).  A shorter sequence is seen as a whole.
    block : int or (rows, columns)
        The size of a block.
    device : optional
        By default the device of the items, or the host if they are no tensors.

    Returns
    -------
    torch.nn.attention.flex_attention.BlockMask ``(1, 1, rows, rows)``
        The mask that ``create_block_mask`` makes of the corresponding `mask_mod`.

    Raises
    ------
    TypeError
        If the argument is not a batch, or an option has the wrong type.
    StructureError
        If there are no rows, or 2^31 or more, or an option is negative.
    OutOfMemory
        If the blocks do not fit into memory.

    See Also
    --------
    seqformats.block_mask : The mask as a square of bools, for few rows.

    Notes
    -----
    The blocks are found from the offsets, in time proportional to the number of blocks in the mask; no array of rows x
    rows is made.  A block mask has four int32 tables of blocks x blocks numbers.  On the host their unused parts take
    no memory.

    Examples
    --------
    >>> import seqformats as sf
    >>> import torch
    >>> mask = sf.torch.flex_mask(sf.Ragged(torch.zeros(300), [100, 200]), causal=True)
    >>> mask.to_dense()[0, 0]
    tensor([[1, 0, 0],
            [1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)
    """
    torch = import_extra("torch", "torch")
    flex = import_extra("torch.nn.attention.flex_attention", "torch")
    flag(causal, "causal")
    structure, like = read_structure(x)
    rows = structure.rows
    if not 0 < rows < 2**31:
        raise OVERFLOW(f"a block mask is for 1 to {2**31 - 1} rows, but there are {rows}")
    left, right = _window(window, rows)
    right = 0 if causal else right
    sizes = _block(block)
    seen: Array = np.zeros(structure.n, np.int64)
    if prefix is not None:
        seen = per_sequence(prefix, structure.n, "prefix")
        if (seen < 0).any():
            raise ARGUMENT(f"prefix must not be negative, but one is {seen.min()}")
        seen = np.minimum(seen, structure.lengths)
    if device is None:
        device = like.device if isinstance(like, torch.Tensor) else "cpu"
    tables = [torch.from_numpy(table).to(device) for table in _tables(structure, seen, (left, right, *sizes))]
    numbers = _tensor(segment_ids(structure.lengths)).to(torch.int32).to(device)
    known = None
    if prefix is not None and (left < rows or right < rows):
        known = _tensor(position_ids(structure.lengths) < np.repeat(seen, structure.lengths)).to(device)
    counts, table, back_counts, back_table = [(part[0][None, None], part[1][None, None]) for part in tables]
    return flex.BlockMask(
        seq_lengths=(rows, rows),
        kv_num_blocks=counts[0],
        kv_indices=table[0],
        full_kv_num_blocks=counts[1],
        full_kv_indices=table[1],
        q_num_blocks=back_counts[0],
        q_indices=back_table[0],
        full_q_num_blocks=back_counts[1],
        full_q_indices=back_table[1],
        BLOCK_SIZE=sizes,
        mask_mod=mask_mod_of(numbers, left if left < rows else None, right if right < rows else None, known),
    )


def _tensor(x: Array) -> Tensor:
    return import_extra("torch", "torch").from_numpy(x)


def _window(window: object, rows: int) -> tuple[int, int]:
    """Read how many rows before and after itself a row sees; `rows` where there is no limit."""
    if window is None:
        return rows, rows
    pair = window if isinstance(window, (tuple, list)) else (window, window)
    if len(pair) != 2:
        raise KIND(f"window must be a number, or (left, right), not {quote(window)}")
    left, right = whole(pair[0], "window"), whole(pair[1], "window")
    if left < -1 or right < -1:
        raise ARGUMENT(f"window must be -1, for no limit, or not negative, not {quote(window)}")
    return rows if left < 0 else min(left, rows), rows if right < 0 else min(right, rows)


def _block(block: object) -> tuple[int, int]:
    """Read the rows and columns of a block."""
    pair = block if isinstance(block, (tuple, list)) else (block, block)
    if len(pair) != 2:
        raise KIND(f"block must be a number, or (rows, columns), not {quote(block)}")
    sizes = whole(pair[0], "block"), whole(pair[1], "block")
    if not all(0 < size < 2**31 for size in sizes):
        raise ARGUMENT(f"block must be positive, not {quote(block)}")
    return sizes


def _tables(structure: Structure, seen: Array, options: tuple[int, int, int, int]) -> list[Array]:
    """Count and list the blocks of the mask, by lines and by columns of blocks: first partly, then wholly seen ones."""
    lines, columns = [-(-structure.rows // size) for size in options[2:]]
    shapes = (2, lines), (2, lines, columns), (2, columns), (2, columns, lines)
    tables = [allocate(NUMPY.zeros, shape, np.dtype("int32"), seen) for shape in shapes]
    flex_blocks.run(structure.offsets, seen, np.array(options, np.int64), *[table.reshape(-1) for table in tables])
    return tables
