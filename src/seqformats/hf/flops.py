"""Cost of a sequence in a model of transformers, by its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import KIND, TOGETHER, quote
from .annotations import Config

_NAMES = {
    "hidden": ("hidden_size", "n_embd", "d_model", "dim"),
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "inner": ("intermediate_size", "n_inner", "ffn_dim", "d_ff", "hidden_dim", "ffn_hidden_size"),
}
"""Names that configurations have for the same number."""
_GATED = ("silu", "swish", "swiglu", "geglu")
"""Activations that come with a gate, a third matrix, in the models that have them."""


def cost(config: Config) -> tuple[float, float, float]:
    """Floating-point operations of a sequence of length L in a transformer: ``a L + b L^2 + c``, forward.

    Parameters
    ----------
    config : a configuration of transformers, or a dict as in a config.json
        Of a model with several parts, that of its text.

    Returns
    -------
    tuple
        ``(a, b, c)``, as `seqformats.balance` takes it for ``cost=``.  ``a`` counts the linear layers and the head over
        the vocabulary, of experts those that a token goes through; ``b`` attention, of all tokens to all; ``c`` is 0.

    Raises
    ------
    TypeError
        If the configuration has no hidden size, layers or heads.
    ConversionError
        For a model with an encoder and a decoder, whose cost depends on two lengths.

    See Also
    --------
    seqformats.balance : Sequences divided among ranks.

    Notes
    -----
    The backward pass takes twice as much, which changes no division.  A kernel that skips what a causal mask hides
    takes half of ``b``; one with a window of w tokens takes no more than ``b L w``, which a function says.  Widths that
    a configuration does not have are those of its family: 4 times the hidden size within a layer, for instance.

    Examples
    --------
    >>> import seqformats as sf
    >>> llama = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    ...          "intermediate_size": 14336, "hidden_act": "silu", "vocab_size": 128256}
    >>> sf.hf.cost(llama)
    (15009316864.0, 524288.0, 0.0)
    >>> sf.balance([4000, 3000, 2000, 2000, 500], 2, cost=sf.hf.cost(llama)).parts.to_nested()
    [[0, 3], [1, 2, 4]]
    """
    text = getattr(config, "get_text_config", None)
    given = text() if callable(text) and not isinstance(config, Mapping) else config
    if _field(given, "is_encoder_decoder"):
        raise TOGETHER("a model with an encoder and a decoder has two lengths; give balance a number per sequence")
    found = {what: next((n for n in (_field(given, name) for name in names) if n), 0) for what, names in _NAMES.items()}
    missing = [_NAMES[what][0] for what in ("hidden", "layers", "heads") if not isinstance(found[what], int)]
    missing += [_NAMES[what][0] for what in ("hidden", "layers", "heads") if found[what] == 0]
    if missing:
        raise KIND(f"a configuration of a transformer has {' and '.join(missing)}; {quote(config)} has not")
    hidden, layers, heads = found["hidden"], found["layers"], found["heads"]
    matrices, pairs = _attention(given, hidden, heads)
    linear = layers * (matrices + _feed_forward(given, hidden, found["inner"] or 4 * hidden))
    linear += hidden * int(_field(given, "vocab_size") or 0)
    return 2.0 * linear, 2.0 * layers * pairs, 0.0


def _field(config: Config, name: str) -> Any:
    return config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)


def _attention(config: Config, hidden: int, heads: int) -> tuple[int, int]:
    """The numbers in the matrices of an attention layer, and those multiplied for each pair of tokens."""
    rank = _field(config, "kv_lora_rank")
    if rank:  # keys and values by a product of two narrow matrices
        key = int(_field(config, "qk_nope_head_dim") or 0)
        turned, value = int(_field(config, "qk_rope_head_dim") or 0), int(_field(config, "v_head_dim") or key)
        wide, narrow = heads * (key + turned), _field(config, "q_lora_rank")
        queries = narrow * (hidden + wide) if narrow else hidden * wide
        others = hidden * (rank + turned) + rank * heads * (key + value) + heads * value * hidden
        return queries + others, heads * (key + turned + value)
    size = _field(config, "head_dim") or hidden // heads
    few = _field(config, "num_key_value_heads") or (1 if _field(config, "multi_query") else heads)
    return 2 * hidden * size * (heads + few), 2 * heads * size


def _feed_forward(config: Config, hidden: int, inner: int) -> int:
    """The numbers in the matrices that a token goes through after attention."""
    gated = _field(config, "is_gated_act")
    act = _field(config, "hidden_activation") or _field(config, "hidden_act")
    if gated is None:
        gated = str(act) in _GATED or str(_field(config, "model_type")).startswith(("gemma", "modernbert"))
    experts = _field(config, "num_experts_per_tok") or _field(config, "num_experts_per_token")
    if experts:
        width = _field(config, "moe_intermediate_size") or inner
        shared = _field(config, "shared_expert_intermediate_size")
        inner = experts * width + (shared or width * int(_field(config, "n_shared_experts") or 0))
    return (3 if gated else 2) * hidden * inner
