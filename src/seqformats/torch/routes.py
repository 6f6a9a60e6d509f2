"""Attention on GPUs by the fastest of the kernels that are there and that give what is asked for."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from ..converters.convert import convert
from ..converters.like import in_kind_of
from ..formats import Encoding, List, Ragged
from ..operations.attention import position_ids
from ..operations.dot_attention import attention
from .attention import flex_mask, varlen
from .masks import score_mod_of

Tensor: TypeAlias = Any  # torch.Tensor, of a package that need not be there

_MOST_WIDE = 256
"""The widest heads of flash-attention."""
_LEAST_WIDE = 16
"""The narrowest heads that FlexAttention compiles kernels for."""
_HALF = ("float16", "bfloat16")


class _Asked(NamedTuple):
    """Arguments of attention, with batches as `Ragged`."""

    q: Ragged[Any]
    k: Ragged[Any]
    v: Ragged[Any]
    options: dict[str, Any]

    def has(self, *names: str) -> bool:
        """Tell whether one of these options is given."""
        return any(self.options.get(name) is not None for name in names)

    @property
    def window(self) -> tuple[int, int]:
        """The numbers of keys to the left and to the right, -1 for no limit."""
        given = self.options.get("window")
        left, right = given if isinstance(given, (tuple, list)) else (given, given)
        left, right = (-1 if side is None else int(side) for side in (left, right))
        return left, 0 if self.options.get("causal") else right

    @property
    def alike(self) -> bool:
        """Tell whether queries and keys have the same lengths."""
        return bool(self.q._structure.same_lengths(self.k._structure))


def attention_route(q: Any, k: Any = None, v: Any = None, **options: Any) -> str:
    """Name the kernel that `attend` runs for these batches and options.

    Parameters
    ----------
    q, k, v : encodings or lists of tensors
        As for `seqformats.attention`; without `v` that is like `k`, without `k` like `q`.
    **options
        Those of `seqformats.attention`.

    Returns
    -------
    str
        "flash_attn" for ``flash_attn_varlen_func`` of that package; "varlen_attn" for
        ``torch.nn.attention.varlen.varlen_attn``; "flex_attention" for FlexAttention with the block mask of
        `flex_mask`; else "seqformats".

    Raises
    ------
    TypeError, StructureError, ConversionError, DeviceError
        As of `seqformats.attention`.

    See Also
    --------
    attend : The attention itself.

    Notes
    -----
    All but the last are for tensors on CUDA.  The first two are for half precision, heads of one width up to 256, and
    no sinks, chunks, prefixes, tables as bias or dropout, which they draw by other numbers; soft caps, and slopes
    without a gradient, go to flash-attn alone.  FlexAttention is for batches whose queries and keys have the same
    lengths, with heads of at least 16 numbers, and no sinks, chunks, dropout or bias with a gradient.

    Examples
    --------
    >>> import seqformats as sf
    >>> import torch
    >>> sf.torch.attention_route(sf.Ragged(torch.zeros(3, 2, 16), [1, 2]), causal=True)
    'seqformats'
    """
    k = q if k is None else k
    asked = _read_batches(q, k, k if v is None else v, options)
    _check(asked)
    return _route(asked)[0]


def attend(q: Any, k: Any, v: Any, **options: Any) -> Any:
    """Scaled dot-product attention along every sequence, on CUDA by the fastest kernel that is there.

    Parameters
    ----------
    q, k, v : encodings or lists of tensors
        As for `seqformats.attention`.
    **options
        Those of `seqformats.attention`.

    Returns
    -------
    what `q` is
        As of `seqformats.attention`.  By the kernels of others it has their rounding, and no second derivative.

    Raises
    ------
    TypeError, StructureError, ConversionError, DeviceError
        As of `seqformats.attention`.

    See Also
    --------
    attention_route : Which kernel that is.
    seqformats.attention : The same by the kernels of this library, also for other libraries.

    Examples
    --------
    >>> import seqformats as sf
    >>> import torch
    >>> x = sf.Ragged(torch.ones(3, 2, 16), [1, 2])
    >>> sf.torch.attend(x, x, x, causal=True).data.shape
    torch.Size([3, 2, 16])
    """
    asked = _read_batches(q, k, v, options)
    function = _route(asked)[1]
    if function is None:
        return attention(q, k, v, **options)
    found = asked.q._with_data(function(asked))
    return convert(found, type(q)) if isinstance(q, Encoding) else in_kind_of(convert(found, List), q)


def _read_batches(q: Any, k: Any, v: Any, options: dict[str, Any]) -> _Asked:
    """Read the batches; an error for what is none."""
    made = [x if isinstance(x, Ragged) else convert(x, Ragged) for x in (q, k, v)]
    return _Asked(made[0], made[1], made[2], options)


def _route(asked: _Asked) -> tuple[str, Callable[[_Asked], Tensor] | None]:
    """The name of the kernel, and what runs it; None for our own."""
    if _on_gpu(asked.q.data) and asked.q._structure.rows and asked.k._structure.rows and asked.q.data.dim() == 3:
        _check(asked)
        for name, (fits, function) in _ROUTES.items():
            if fits(asked):
                return name, function
    return "seqformats", None


def _check(asked: _Asked) -> None:
    """Raise what `attention` raises for these arguments, before anything is calculated."""
    inspect.unwrap(attention)(asked.q, asked.k, asked.v, **asked.options)


def _on_gpu(x: Tensor) -> bool:
    return bool(x.is_cuda)


def _wants_gradient(x: Tensor | None) -> bool:
    return x is not None and x.requires_grad


@functools.cache
def _function(module: str, name: str) -> Any:
    """A function of a module; None where that is not there, or cannot be loaded."""
    try:
        return getattr(importlib.import_module(module), name, None)
    except (ImportError, OSError, RuntimeError):  # built for another PyTorch
        return None


def _is_varlen(asked: _Asked) -> bool:
    """Tell whether a call is one of those that both functions over cumulated lengths know."""
    q, v = asked.q.data, asked.v.data
    half = str(q.dtype).removeprefix("torch.") in _HALF
    one_width = q.shape[-1] == v.shape[-1] and 0 < q.shape[-1] <= _MOST_WIDE
    return half and one_width and not (asked.has("sinks", "chunk", "prefix") or asked.options.get("dropout"))


def _fits_flash(asked: _Asked) -> bool:
    bias = asked.options.get("bias")
    known = bias is None or (bias.dim() == 1 and not bias.requires_grad)
    return _is_varlen(asked) and known and _function("flash_attn", "flash_attn_varlen_func") is not None


def _run_flash(asked: _Asked) -> Tensor:
    """Run flash-attn; its causal masks and slopes are by the end of the sequences, as ours."""
    options, bias = asked.options, asked.options.get("bias")
    return _function("flash_attn", "flash_attn_varlen_func")(
        asked.q.data,
        asked.k.data,
        asked.v.data,
        **varlen(asked.q, asked.k, names="flash_attn"),
        softmax_scale=options.get("scale"),
        causal=bool(options.get("causal")),
        window_size=asked.window,
        softcap=options.get("softcap") or 0.0,
        alibi_slopes=None if bias is None else bias.float(),
    )


def _fits_varlen(asked: _Asked) -> bool:
    known = _is_varlen(asked) and not asked.has("bias", "softcap")
    placed = asked.alike or asked.window == (-1, -1)  # nothing is said of where queries stand beside more keys
    return known and placed and _function("torch.nn.attention.varlen", "varlen_attn") is not None


def _run_varlen(asked: _Asked) -> Tensor:
    q, k = asked.q.data, asked.k.data
    return _function("torch.nn.attention.varlen", "varlen_attn")(
        q,
        k,
        asked.v.data,
        **varlen(asked.q, asked.k, names="torch"),
        scale=asked.options.get("scale"),
        window_size=asked.window,
        enable_gqa=q.shape[1] != k.shape[1],
    )


def _fits_flex(asked: _Asked) -> bool:
    wide = min(asked.q.data.shape[-1], asked.v.data.shape[-1]) >= _LEAST_WIDE
    known = asked.alike and wide and not (asked.has("sinks", "chunk") or asked.options.get("dropout"))
    flex = _function("torch.nn.attention.flex_attention", "flex_attention")
    return known and not _wants_gradient(asked.options.get("bias")) and flex is not None


def _run_flex(asked: _Asked) -> Tensor:
    options, (left, right) = asked.options, asked.window
    mask = flex_mask(asked.q, window=(left, right), prefix=options.get("prefix"), device=asked.q.data.device)
    q, k, v = (x.data.transpose(0, 1)[None] for x in (asked.q, asked.k, asked.v))
    out = _compiled_flex()(
        q,
        k,
        v,
        score_mod=_score_mod(asked.q, options.get("softcap"), options.get("bias")),
        block_mask=mask,
        scale=options.get("scale"),
        enable_gqa=q.shape[1] != k.shape[1],
    )
    return out[0].transpose(0, 1)


@functools.cache
def _compiled_flex() -> Any:
    """FlexAttention as a kernel, which it becomes by ``torch.compile`` alone."""
    torch = importlib.import_module("torch")
    return torch.compile(_function("torch.nn.attention.flex_attention", "flex_attention"), dynamic=True)


def _score_mod(q: Ragged[Any], softcap: float | None, bias: Tensor | None) -> Callable[..., Tensor] | None:
    """The change of a score that FlexAttention is given; None where there is none."""
    if softcap is None and bias is None:
        return None
    torch = importlib.import_module("torch")
    places = torch.as_tensor(position_ids(q)).to(q.data.device)
    # a second number would be a symbol, which FlexAttention takes for no argument from PyTorch 2.15 on
    cap = None if softcap is None else torch.tensor(softcap, dtype=torch.float32, device=q.data.device)
    made: Callable[..., Tensor] = score_mod_of(places, cap, bias)
    return made


_ROUTES: dict[str, tuple[Callable[[_Asked], bool], Callable[[_Asked], Tensor]]] = {
    "flash_attn": (_fits_flash, _run_flash),
    "varlen_attn": (_fits_varlen, _run_varlen),
    "flex_attention": (_fits_flex, _run_flex),
}
