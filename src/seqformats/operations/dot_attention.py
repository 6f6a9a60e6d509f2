"""Scaled dot-product attention along every sequence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..arrays import Array, Shape, adopt, freeze, library_of
from ..arrays.dtypes import FLOAT_NAMES, HALF
from ..converters.layouts import check_at_least
from ..errors import ARGUMENT, COUNTS, DEVICES, DTYPE, LEVELS, MIXED, RANGE, SHAPE, TOGETHER, UNLIKE, quote
from ..formats import Encoding
from ..formats.annotations import Given, Operands
from ..formats.encoding import abridge
from ..formats.structure import flag, same_levels
from ..gradients.levels import INNERMOST, operation_by_level
from ..gradients.operation import Call, each_gradient, operands_of
from .annotations import B, Batch, Counts
from .attention_call import AttentionCall, Choices, attend_by_plan, heads_of, may_follow
from .attention_rows import NO_BIAS, SLOPES, TABLE
from .attention_second import second_order
from .calculation import name_of
from .options import check_places, key_of, number, share
from .rearrange import per_sequence

_ALL_KEYS = 1 << 61
"""So many keys to a side are all that there are."""


def _quickly(*operands: Any, causal: bool = False, **options: Any) -> Any:
    """The result by a plan, for the usual options; None where there is none."""
    if options or len(operands) != 3 or type(causal) is not bool or not may_follow(operands):
        return None
    return attend_by_plan(*operands, Choices(_scale(operands[0].item_shape), _ALL_KEYS, 0 if causal else _ALL_KEYS))


def _scale(shape: Shape) -> float:
    """The factor of scores where none is given."""
    return 1 / math.sqrt(max((1, *shape[-1:])))


@operation_by_level(keeps=True, beside=("k", "v"), enter=_quickly)
def attention(
    q: B,
    k: Batch,
    v: Batch,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | tuple[int | None, int | None] | None = None,
    chunk: int | None = None,
    prefix: Counts | None = None,
    softcap: float | None = None,
    bias: Array | None = None,
    sinks: Array | None = None,
    dropout: float = 0.0,
    seed: int | None = None,
    level: int = INNERMOST,  # noqa: ARG001  see `operation_by_level`
) -> Call[B]:
    """Scaled dot-product attention along every sequence, without padding.

    Every query becomes the mean of the values of its sequence, weighted by ``softmax(scale * q @ k.T)``.

    Parameters
    ----------
    q : an encoding, a list of arrays or nested lists
        The queries, items ``(heads, d)``, or ``(d,)`` for one head.
    k, v : encodings, lists of arrays or nested lists
        The keys, items ``(groups, d)``, and the values, ``(groups, w)``, over as many sequences, of equal lengths,
        which may be others than those of `q` (cross attention).  Where there are fewer groups than heads, each serves
        ``heads / groups`` heads in a row (grouped queries).  Kinds may differ; dtype and library are those of `q`.
    causal : bool
        True if a query sees no key after it.  The last query sees all keys, as in flash-attention: with ``m`` keys and
        ``n`` queries, query t stands at ``p = t + m - n``, and sees the keys up to p.
    scale : float, optional
        ``1 / sqrt(d)`` without it.
    window : int or a pair (left, right), optional
        A query at p sees the keys from ``p - left`` to ``p + right`` alone; an int is both, None or -1 in a pair is no
        limit.
    chunk : int, optional
        Each sequence is cut into chunks of so many keys; a query at p sees those of the chunk that p is in, as far as
        `causal` and `window` allow.
    prefix : int or n integers, optional
        So many keys at the beginning of each sequence are seen by all of its queries, whatever else is said: with
        `causal` a prefix language model.
    softcap : float, optional
        Scores become ``softcap * tanh(score / softcap)``, before `bias` is added.
    bias : array (heads, t, m) or (heads,), optional
        A table whose number ``[h, i, j]`` is added to the score of query i and key j of each sequence, for head h, at
        least as long as the longest sequences; or slopes (ALiBi): ``slope * abs(p - j)`` is subtracted.
    sinks : array (heads,), optional
        One more score for each query of a head, whose value is zero: it takes its share of the weights.
    dropout : float
        The part of the weights that is dropped, from 0 to 1, in steps of 1 / 65,536; the others are scaled so that
        their expected sum stays the same.
    seed : int, optional
        From 0 to 2^63 - 1, what `dropout` draws by; needed where that is above 0.
    level : int
        The level of a `LoD` whose sequences these are, as in `convert`; the whole structure stays.

    Returns
    -------
    what `q` is
        With items ``(heads, w)``, or ``(w,)`` for one head, in the dtype of `q`.  A query that sees nothing, or whose
        scores are all -inf, gives zeros.

    Raises
    ------
    TypeError
        For items that are no floats.
    StructureError
        For sequences, shapes or dtypes that do not fit each other, and for a negative `prefix`.
    ConversionError
        For a `window` below -1, a `chunk` below 1, a `scale` or `softcap` that is no finite number, a `softcap` that is
        not above 0, a `dropout` that is no part, or one without a `seed`.
    DeviceError
        If the arrays belong to different libraries or devices.

    See Also
    --------
    softmax : The weights alone, of scores that are there already.
    cu_seqlens : Lengths, as flash-attention takes them.

    Notes
    -----
    Scores are never kept: keys come in blocks, and what was added up before is scaled when a larger score comes
    (Milakov and Gimelshein, 2018; Rabe and Staats, 2021; Dao et al., FlashAttention, 2022), so memory grows with the
    items alone.
    Half precision is calculated in float32.  The gradient, of `q`, `k`, `v`, `bias` and `sinks`, calculates the scores
    again (Dao, FlashAttention-2, 2023); the order of its sums, as that of the results, does not depend on the threads
    or, but for `bias` and `sinks`, on neighbours.  A second derivative makes the scores of each sequence at once.

    What dropout draws depends on the seed, the number of the sequence, the head and the places of query and key alone,
    so the gradient draws the same again (Philox; Salmon et al., 2011).

    A soft cap is that of Gemma 2 (2024), slopes are those of Press et al., ALiBi, 2022, sinks those of Xiao et al.,
    2024, as GPT-OSS learns them, chunks those of Llama 4 (2025).

    As in every product of matrices, an infinity or NaN in a value may come into rows that do not see it.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> q = sf.Ragged(np.zeros((3, 1, 4)), [2, 1])
    >>> v = sf.Ragged(np.arange(3.0).reshape(3, 1, 1), [2, 1])
    >>> sf.attention(q, q, v).data.ravel()
    array([0.5, 0.5, 2. ])
    >>> sf.attention(q, q, v, causal=True).data.ravel()
    array([0. , 0.5, 2. ])
    """
    operands = operands_of(q, k, v)
    own: Any = tuple([each.own for each in operands])
    name = _check(*own)
    flag(causal, "causal")
    left, right = _limits(window)
    factor = _scale(own[0].item_shape) if scale is None else number(scale, "scale")
    if not math.isfinite(factor):
        raise RANGE(f"scale must be finite, not {quote(scale)}")
    choices = Choices(factor, left, 0 if causal else right)
    extras: list[Array] = []
    if dropout or not (
        chunk is None and prefix is None and softcap is None and bias is None and sinks is None and seed is None
    ):
        choices = _with_places(choices, own, chunk, prefix)._replace(cap=_cap(softcap))
        choices = _with_dropout(choices, own, dropout, seed)
        extras = _extras(own, name, bias, sinks)
        choices = choices._replace(form=_form(bias), sunk=sinks is not None)
    given = (*own, *extras)
    call = AttentionCall(given, name, choices)
    of_batches = each_gradient(operands)

    def gradient(slopes: Operands) -> Any:
        return (*of_batches(slopes[:3]), *slopes[3:])

    return Call(given, call.rule, operands[0].result, gradient, lambda x, dy: second_order(call, x, dy))


def _with_places(choices: Choices, own: Given, chunk: object, prefix: object) -> Choices:
    """The options with chunks and prefixes."""
    if chunk is not None:
        choices = choices._replace(chunk=min(check_at_least(chunk, "chunk", 1), _ALL_KEYS))
    if prefix is not None:
        keys = own[1]._structure
        counts = per_sequence(prefix, keys.n, "prefix")
        if (counts < 0).any():
            raise ARGUMENT(f"prefix must not be negative, but one is {counts.min()}")
        choices = choices._replace(prefixes=freeze(np.minimum(counts, keys.lengths)))
    return choices


def _cap(softcap: object) -> float:
    """The soft cap, 0 for none."""
    if softcap is None:
        return 0.0
    cap = number(softcap, "softcap")
    if not (math.isfinite(cap) and cap > 0):
        raise RANGE(f"softcap must be finite and above 0, not {quote(softcap)}")
    return cap


def _with_dropout(choices: Choices, own: Given, dropout: object, seed: object) -> Choices:
    """The options with dropout, as they are for a probability of 0.

    ConversionError without a seed; StructureError for a sequence of more items than random numbers are drawn for.
    """
    part = share(dropout, "dropout")
    key = 0 if seed is None else key_of(seed)
    if not part:
        return choices
    if seed is None:
        raise TOGETHER("dropout draws random numbers; say seed=")
    for x in own[:2]:
        check_places(x._structure)
    return choices._replace(dropout=part, seed=key)


def _form(bias: Given) -> int:
    """Form of a bias."""
    if bias is None:
        return NO_BIAS
    return SLOPES if len(bias.shape) == 1 else TABLE


def _extras(own: Given, name: str, bias: object, sinks: object) -> list[Array]:
    """The bias and the sinks, as far as there are some, as arrays that go with the queries."""
    q, k = own[:2]
    heads, made = heads_of(q), []
    if bias is not None:
        x = _place_like(q, name, bias, "bias")
        least = (heads, q._structure.longest, k._structure.longest)
        slopes = tuple(x.shape) == (heads,)
        if not slopes and (len(x.shape) != 3 or x.shape[0] != heads or x.shape[1] < least[1] or x.shape[2] < least[2]):
            raise SHAPE(
                f"bias must have shape (heads, t, m), here {least} or longer, or be slopes ({heads},), not "
                f"{tuple(x.shape)}"
            )
        made.append(x)
    if sinks is not None:
        x = _place_like(q, name, sinks, "sinks")
        if tuple(x.shape) != (heads,):
            raise SHAPE(f"sinks must have shape (heads,), here ({heads},), not {tuple(x.shape)}")
        made.append(x)
    return made


def _place_like(q: Encoding, name: str, given: object, what: str) -> Array:
    """An array in the library and place of the queries, in their dtype or, of half precision, in float32."""
    library, x = adopt(given, what)
    like = q._sample()
    if library is not library_of(like) or library.device(x) != library.device(like):
        raise DEVICES(f"{what} is on {library.device(x)}, {library.name}; q is on {q.device}, {library_of(like).name}")
    dtype = library.dtype_name(x.dtype)
    if dtype != name and not (name in HALF and dtype == "float32"):
        raise MIXED(f"{what} has dtype {dtype}, but q has {name}")
    return x


def _limits(window: object) -> tuple[int, int]:
    """Return the number of keys that a query sees to each side."""
    pair = window if isinstance(window, (tuple, list)) else (window, window)
    if len(pair) != 2:
        raise RANGE(f"window must be an integer or a pair (left, right), not {quote(window)}")
    left, right = (_ALL_KEYS if side is None else min(check_at_least(side, "window", -1), _ALL_KEYS) for side in pair)
    return _ALL_KEYS if left < 0 else left, _ALL_KEYS if right < 0 else right


def _check(q: Encoding, k: Encoding, v: Encoding) -> str:
    """The dtype of three batches; an error where they do not fit each other."""
    sample, structure, shape, outer = q._sample(), q._structure, q.item_shape, q._levels[:-1]
    library, name_of_q = library_of(sample), name_of(q)
    device = library.device(sample)
    for what, x in (("q", q), ("k", k), ("v", v)):
        if what != "q" and x is q:
            continue
        other = x._sample()
        if library_of(other) is not library or library.device(other) != device:
            raise DEVICES(
                f"{what} is on {x.device}, {library_of(x._sample()).name}; q is on {q.device}, {library.name}"
            )
        name = name_of_q if x._dtype is q._dtype else name_of(x)
        if name not in FLOAT_NAMES:
            raise DTYPE(f"attention is for floats ({', '.join(FLOAT_NAMES)}), but {what} has dtype {name}")
        if name != name_of_q:
            raise MIXED(f"{what} has dtype {name}, but q has {name_of_q}")
        if x._structure.n != structure.n:
            raise COUNTS(f"{what} has {x._structure.n} sequences, but q has {structure.n}")
        if outer and x._levels[:-1] and not same_levels(outer, x._levels[:-1]):
            raise LEVELS(f"{what} has other outer levels than q")
        item = x.item_shape
        if len(item) not in (1, 2) or len(item) != len(shape):
            raise SHAPE(
                f"items must have shape (heads, d), or (d,) for one head, in all three batches, but {what} has "
                f"{item}" + ("" if x is q else f" and q {shape}")
            )
    if not k._structure.same_lengths(v._structure):
        raise UNLIKE(
            f"k has sequences of lengths {abridge(k._structure.lengths)}, but v {abridge(v._structure.lengths)}"
        )
    of_k, of_v = k.item_shape, v.item_shape
    if of_k[-1] != shape[-1]:
        raise SHAPE(f"queries are {shape[-1]} wide, but keys {of_k[-1]}")
    if of_k[:-1] != of_v[:-1]:
        raise SHAPE(f"k has {of_k[0]} heads, but v has {of_v[0]}")
    heads, groups = heads_of(q), heads_of(k)
    if (heads % groups if groups else heads) != 0:
        raise SHAPE(f"q has {heads} heads, which {groups} heads of k and v cannot share evenly")
    return name_of_q
