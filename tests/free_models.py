"""Tiny models of transformers with random weights, by what they need to run without padding; nothing is downloaded.

Learned positions end at 64 and windows are 8 wide, both below the tokens of a batch, so that a place in the row in the
stead of one in the sequence is an error or another number.
"""

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM

transformers.logging.set_verbosity_error()

WORDS, WIDE, LAYERS, HEADS, PLACES = 97, 32, 2, 4, 64
_BASE = {"vocab_size": WORDS, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_COMMON = {**_BASE, "hidden_size": WIDE, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
_NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
ENCODER = {**_COMMON, "intermediate_size": 64, "max_position_embeddings": PLACES, **_NO_DROPOUT}
DECODER = {**_COMMON, "intermediate_size": 64, "max_position_embeddings": 256, "num_key_value_heads": 2}
_GPT = {
    "vocab_size": WORDS, "n_embd": WIDE, "n_layer": LAYERS, "n_head": HEADS, "n_positions": PLACES, "resid_pdrop": 0.0,
    "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
_MODERN = {**_COMMON, "intermediate_size": 64, "max_position_embeddings": 256, "local_attention": 16}
_T5 = {**_BASE, "d_model": WIDE, "d_kv": 8, "d_ff": 64, "num_layers": LAYERS, "num_heads": HEADS, "dropout_rate": 0.0,
       "decoder_start_token_id": 0}  # fmt: skip
_BART = {
    **_BASE, "d_model": WIDE, "encoder_layers": LAYERS, "decoder_layers": LAYERS, "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": PLACES,
    "dropout": 0.0, "attention_dropout": 0.0, "decoder_start_token_id": 2,
}  # fmt: skip
_WINDOW, _WIDE_HEADS, _EXPERTS = {"sliding_window": 8}, {"head_dim": 8}, {"num_experts_per_tok": 2}

MASKED = {
    "bert": ENCODER,
    "roberta": ENCODER,
    "camembert": ENCODER,
    "distilbert": {**_BASE, "dim": WIDE, "n_layers": LAYERS, "n_heads": HEADS, "hidden_dim": 64, "dropout": 0.0,
                   "max_position_embeddings": PLACES, "attention_dropout": 0.0},
    "electra": {**ENCODER, "embedding_size": 16},
    "albert": {**ENCODER, "embedding_size": 16},
    "modernbert": {**_MODERN, "global_attn_every_n_layers": 2, "num_hidden_layers": 4, "cls_token_id": 1,
                   "sep_token_id": 2},
    "esm": {**ENCODER, "position_embedding_type": "rotary", "token_dropout": False, "mask_token_id": 5},
    "eurobert": DECODER,
    "nomic_bert": ENCODER,
}  # fmt: skip
CAUSAL = {
    "gpt2": _GPT,
    "gptj": {**_GPT, "rotary_dim": 4},
    "gpt_neox": {**DECODER, "hidden_dropout": 0.0},
    "opt": {**_COMMON, "ffn_dim": 64, "max_position_embeddings": PLACES, "word_embed_proj_dim": WIDE, "dropout": 0.0},
    "biogpt": ENCODER,
    "llama": DECODER,
    "mistral": {**DECODER, **_WINDOW},
    "mixtral": {**DECODER, "num_local_experts": 4, **_EXPERTS},
    "qwen2": DECODER,
    "qwen3": {**DECODER, **_WIDE_HEADS},
    "gemma": {**DECODER, **_WIDE_HEADS},
    "gemma2": {**DECODER, **_WIDE_HEADS, **_WINDOW, "attn_logit_softcapping": 2.0, "query_pre_attn_scalar": 8},
    "gemma3_text": {**DECODER, **_WIDE_HEADS, **_WINDOW, "query_pre_attn_scalar": 8,
                    "layer_types": ["sliding_attention", "full_attention"]},
    "phi3": {**DECODER, **_WINDOW},
    "olmo2": DECODER,
    "cohere2": {**DECODER, **_WINDOW},
    "gpt_oss": {**DECODER, **_WIDE_HEADS, **_WINDOW, "num_local_experts": 4, **_EXPERTS},
    "llama4_text": {**DECODER, **_WIDE_HEADS, "num_local_experts": 2, "intermediate_size_mlp": 64,
                    "num_hidden_layers": 4, "attention_chunk_size": 8, "attn_temperature_tuning": False},
}  # fmt: skip
PAIRED = {"t5": _T5, "umt5": _T5, "bart": _BART, "mbart": _BART, "marian": _BART, "pegasus": _BART}
REFUSED = {
    "deberta-v2": (ENCODER, "calculates its attention itself"),
    "mpnet": (ENCODER, "calculates its attention itself"),
    "bloom": ({**_BASE, "hidden_size": WIDE, "n_layer": LAYERS, "n_head": HEADS}, "calculates its attention itself"),
    "layoutlm": (ENCODER, "without asking for a mask"),
    "fnet": ({**_COMMON, "intermediate_size": 64, "max_position_embeddings": PLACES}, "carries something along"),
    "convbert": (ENCODER, "mixes neighbours"),
    "mamba": ({**_BASE, "hidden_size": WIDE, "num_hidden_layers": LAYERS, "state_size": 8}, "carries something along"),
    "jamba": ({**DECODER, "num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 8,
               "mamba_expand": 2, "num_experts": 2, "use_mamba_kernels": False}, "carries something along"),
    "lfm2": ({**DECODER, "layer_types": ["conv", "full_attention"]}, "carries something along"),
    "switch_transformers": ({**_T5, "num_experts": 2}, "drop tokens by how many"),
    "m2m_100": (_BART, "mixes the tokens of a row"),
}  # fmt: skip


def scaled(model):
    """A model whose weights are large enough for positions and biases to count, without dropout."""
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() > 1:
                p.mul_(3)
    return model.eval()


def build(name, options=None, kind=None):
    """A model of this type."""
    torch.manual_seed(0)
    if options is None:
        options = {**MASKED, **CAUSAL, **PAIRED, **{k: v[0] for k, v in REFUSED.items()}}[name]
    if kind is None:
        paired = name in PAIRED or name in ("m2m_100", "switch_transformers")
        causal = name in CAUSAL or name in ("bloom", "mamba", "jamba", "lfm2")
        kind = AutoModelForSeq2SeqLM if paired else AutoModelForCausalLM if causal else AutoModelForMaskedLM
    if isinstance(kind, str):
        kind = getattr(transformers, kind)
        return scaled(kind(kind.config_class(**options)))
    return scaled(kind.from_config(AutoConfig.for_model(name, **options)))
