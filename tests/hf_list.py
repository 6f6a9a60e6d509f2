"""The decoders, and the models with an encoder, of transformers that can be made tiny, and what each can be given."""

import inspect

DECODERS = {
    "right": """
        apertus apertus1p5_text arcee aria_text axk1 bert bert-generation big_bird biogpt bitnet bloom camembert
        codegen cohere ctrl data2vec-text deepseek_v2 deepseek_v3 diffllama dots1 electra ernie ernie4_5 ernie4_5_moe
        exaone falcon flex_olmo flint gemma glm glm4 glm4_moe glm4_moe_lite gpt-sw3 gpt2 gpt_bigcode gpt_neo gpt_neox
        gpt_neox_japanese gptj granite granitemoe granitemoeshared helium hrm_text hunyuan_v1_dense hunyuan_v1_moe
        hy_v3 hyperclovax internlm3 iquestcoder jais2 jetmoe laguna llama mellum minicpm3 minimax_m2
        minimax_m3_vl_text mpt nanochat nemotron olmo olmo2 olmoe opt persimmon phi qwen2 qwen2_moe qwen3 qwen3_moe
        roberta roberta-prelayernorm sarvam_mla sarvam_moe seed_oss smollm3 solar_open stablelm xglm xlm-roberta
        xlm-roberta-xl xmod youtu
    """,
    "together": """
        afmoe axk2 bailing_hybrid bamba beam cohere2 cohere2_moe cwm deepseek_v32 doge exaone4 exaone_moe falcon_h1
        falcon_mamba gemma2 gemma3_text gemma3n_text gemma4_text gemma4_unified_text glm_moe_dsa gpt_oss granite_swa
        granitemoe_swa granitemoehybrid hy_v4 inkling_text jamba kolibri1 lara_mini lfm2 lfm2_moe lfm3 llama4_text
        mamba mamba2 megatron-bert mimo_v2_flash ministral ministral3 mistral mixtral modernbert-decoder nemotron_h
        olmo3 olmo_hybrid phi3 phimoe qwen3_5_moe_text qwen3_5_text qwen3_next rembert roc_bert roformer starcoder2
        vaultgemma zaya
    """,
    "one length": """
        bart bigbird_pegasus blenderbot blenderbot-small deepseek_v4 marian mbart mvp pegasus plbart trocr whisper
    """,
    "refused": """
        cpmant dory minimax moshi openai-gpt prophetnet recurrent_gemma reformer rwkv xlm xlnet xlstm
    """,
}
"""By what they can be given: all; no sources that are added to a search; prompts of one length alone; no search."""
PAIRS = """
        bart bigbird_pegasus blenderbot blenderbot-small fsmt led longt5 m2m_100 marian mbart mt5 mvp nllb-moe pegasus
        pegasus_x plbart seamless_m4t seamless_m4t_v2 switch_transformers t5 t5gemma umt5
"""
FAST = ["llama", "opt", "roberta", "mamba", "jamba"], ["bart"]
"""One of each kind, for each run."""

WORDS, PADDING, START, END = 40, 1, 2, 3
_LAYERS, _HEADS, _WIDTH, _INNER = 2, 4, 32, 48
SIZES = {
    name: size
    for size, names in (
        (_LAYERS, "num_hidden_layers num_layers n_layer n_layers decoder_layers encoder_layers num_encoder_layers"),
        (_LAYERS, "num_decoder_layers num_key_value_heads num_experts_per_tok"),
        (_HEADS, "num_heads n_head n_heads num_attention_heads decoder_attention_heads encoder_attention_heads"),
        (_HEADS, "num_experts num_local_experts n_routed_experts moe_num_experts rotary_dim"),
        (8, "head_dim d_kv d_head v_head_dim qk_rope_head_dim qk_nope_head_dim sliding_window state_size"),
        (16, "q_lora_rank kv_lora_rank"),
        (24, "moe_intermediate_size shared_expert_intermediate_size"),
        (_WIDTH, "hidden_size d_model n_embd emb_dim dim_model embedding_size word_embed_proj_dim"),
        (_INNER, "intermediate_size d_ff dim_ff dff ffn_dim d_inner ffn_hidden_size decoder_ffn_dim encoder_ffn_dim"),
        (64, "n_positions n_ctx"),
        (128, "max_position_embeddings"),
        (WORDS, "vocab_size"),
        (PADDING, "pad_token_id"),
        (START, "bos_token_id"),
        (END, "eos_token_id"),
        (1, "n_group topk_group first_k_dense_replace"),
        (0.0, "dropout attention_dropout hidden_dropout hidden_dropout_prob attention_probs_dropout_prob"),
        (0.0, "activation_dropout resid_pdrop embd_pdrop attn_pdrop"),
        (True, "is_decoder"),
    )
    for name in names.split()
}

_LATENT_MODELS = "axk1 axk2 deepseek_v2 deepseek_v3 deepseek_v32 glm4_moe_lite glm_moe_dsa minicpm3 sarvam_mla youtu"
_OWN_DECODERS = "bart bigbird_pegasus blenderbot blenderbot-small marian mbart mvp pegasus plbart"
_LATENT = {"num_key_value_heads": 4, "head_dim": None}
_LINEAR = {
    "linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    "layer_types": ["linear_attention", "full_attention"],
}  # fmt: skip
_STATES = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8}
_CONVOLUTION = {"layer_types": ["conv", "full_attention"]}
_DECODER = {"num_hidden_layers": None}
_GEMMA = {name: SIZES[name] for name in ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
    "num_attention_heads", "num_key_value_heads", "head_dim", "sliding_window")}  # fmt: skip
MORE = {
    **dict.fromkeys(
        _LATENT_MODELS.split(),
        _LATENT,
    ),
    **dict.fromkeys(["qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"], _LINEAR),
    **dict.fromkeys(_OWN_DECODERS.split(), _DECODER),
    "bailing_hybrid": _LATENT | {"layer_types": ["linear_attention", "full_attention"]},
    "bamba": _STATES | {"attn_layer_indices": [1]},
    "dots1": {"n_shared_experts": 1},
    "ernie4_5_moe": {"moe_k": 2},
    "gemma3n_text": {
        "num_hidden_layers": 4, "num_kv_shared_layers": 2, "layer_types": ["sliding_attention", "full_attention"] * 2,
        "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": WORDS, "laurel_rank": 4, "altup_num_inputs": 2,
    },
    "gemma4_text": {"hidden_size_per_layer_input": 0},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 8},
    "granitemoehybrid": _STATES | {"layer_types": ["mamba", "attention"]},
    "jamba": {
        "num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 8, "num_experts": 2,
        "use_mamba_kernels": False,
    },
    "lfm2": _CONVOLUTION,
    "lfm2_moe": _CONVOLUTION | {"num_dense_layers": 1},
    "lfm3": _CONVOLUTION,
    "mamba2": {"num_heads": 8, "head_dim": 8, "n_groups": 2},
    "prophetnet": _DECODER,
    "recurrent_gemma": {"num_hidden_layers": 3, "attention_window_size": 8, "lru_width": 32},
    "reformer": {
        "axial_pos_embds_dim": [16, 16], "axial_pos_shape": [8, 8], "attn_layers": ["local", "local"],
        "attention_head_size": 8, "feed_forward_size": 48,
    },
    "roc_bert": {
        "pronunciation_vocab_size": 20, "shape_vocab_size": 20, "pronunciation_embed_dim": 8, "shape_embed_dim": 8,
    },
    "xlstm": {
        "embedding_dim": 32, "chunkwise_kernel": "chunkwise--native_autograd", "step_kernel": "native",
        "sequence_kernel": "native_sequence__native",
    },
    "xmod": {"default_language": "en_XX"},
    "zaya": {"num_experts_per_tok": 1},
}  # fmt: skip
"""Settings that a configuration needs beside the sizes; None for a size that it is not given."""
_T5 = {"tie_word_embeddings": False, "dense_act_fn": "relu", "head_dim": None}
OF_PAIRS = {
    **dict.fromkeys(["mt5", "switch_transformers", "t5", "umt5"], _T5),
    "bigbird_pegasus": {"attention_type": "original_full"},
    "fsmt": {"src_vocab_size": WORDS, "tgt_vocab_size": WORDS, "langs": ["en", "de"], "vocab_size": None},
    "led": {"attention_window": [4, 4], "max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64},
    "longt5": {"local_radius": 4, "global_block_size": 4},
    "pegasus_x": {"block_size": 8, "num_global_tokens": 4},
    "t5gemma": {"encoder": _GEMMA, "decoder": _GEMMA},
}


def decoder(name, **more):
    """A tiny decoder with random weights."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return _made(name, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(name), {**MORE.get(name, {}), **more})


def pair(name):
    """A tiny model with an encoder."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES

    more = {"is_decoder": None, "num_hidden_layers": None, "decoder_start_token_id": START, "is_encoder_decoder": True}
    return _made(name, MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES.get(name), more | OF_PAIRS.get(name, {}))


def _made(name, model, more):
    import pytest
    import torch
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if model is None:
        pytest.skip(f"this release has no {name}")
    transformers.logging.set_verbosity_error()
    kind = CONFIG_MAPPING[name]
    takes = set(inspect.signature(kind.__init__).parameters)
    for base in kind.__mro__:
        takes.update(vars(base).get("__annotations__", {}))
    options = {name: size for name, size in SIZES.items() if name in takes} | more
    config = kind(**{name: value for name, value in options.items() if value is not None})
    torch.manual_seed(5)
    made = getattr(transformers, model)(config).eval()
    with torch.no_grad():
        for weight in made.parameters():
            if weight.dim() > 1:  # so that positions, and what came long before, count
                weight.mul_(3)
    return made
