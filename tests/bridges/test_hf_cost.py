"""`sf.hf.cost` beside the linear layers that models of transformers have."""

import pytest

import seqformats as sf

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.bridges

SMALL = {"vocab_size": 100, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
USUAL = {"hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 2, "num_attention_heads": 4, **SMALL}
FEW = {**USUAL, "num_key_value_heads": 2}
LATENT = {"kv_lora_rank": 16, "q_lora_rank": 24, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16}
ONE = {"n_routed_experts": 1, "num_experts_per_tok": 1, "moe_intermediate_size": 176, "n_shared_experts": 0}
MODELS = {
    "LlamaForCausalLM": FEW,
    "GPT2LMHeadModel": {"n_embd": 64, "n_layer": 2, "n_head": 4, **SMALL},
    "Gemma2ForCausalLM": {**FEW, "head_dim": 32},
    "Qwen3ForCausalLM": {**FEW, "head_dim": 32},
    "GPTNeoXForCausalLM": USUAL,
    "OPTForCausalLM": {**USUAL, "ffn_dim": 176, "word_embed_proj_dim": 64},
    "Phi3ForCausalLM": FEW,
    "PhiForCausalLM": USUAL,
    "FalconForCausalLM": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, **SMALL},
    "BloomForCausalLM": {"hidden_size": 64, "n_layer": 2, "n_head": 4, **SMALL},
    "Olmo2ForCausalLM": USUAL,
    "DeepseekV3ForCausalLM": {**USUAL, "num_key_value_heads": 4, **LATENT, **ONE, "first_k_dense_replace": 9},
}


@pytest.mark.parametrize("name", MODELS)
def test_linear_layers(name):
    kind = getattr(transformers, name)
    config = kind.config_class(**MODELS[name])
    with torch.device("meta"):
        model = kind(config)
    linear = [m for m in model.modules() if isinstance(m, torch.nn.Linear) or type(m).__name__ == "Conv1D"]
    a, b, c = sf.hf.cost(config)
    assert a == 2 * sum(layer.weight.numel() for layer in linear)
    head = 40 if "kv_lora_rank" in MODELS[name] else 2 * MODELS[name].get("head_dim", 16)
    assert (b, c) == (2 * 2 * 4 * head, 0)
    assert sf.hf.cost(config.to_dict() | {"head_dim": MODELS[name].get("head_dim", 16)})[1] == b


def test_experts_and_texts():
    config = transformers.MixtralConfig(**FEW, num_local_experts=4, num_experts_per_tok=2)
    dense = transformers.LlamaConfig(**{**FEW, "intermediate_size": 352})
    assert sf.hf.cost(config) == sf.hf.cost(dense)
    text = transformers.Gemma3Config(text_config={**FEW, "head_dim": 32})
    assert sf.hf.cost(text) == sf.hf.cost(text.get_text_config())
    shared = {**FEW, "hidden_act": "silu", "num_experts_per_tok": 2, "moe_intermediate_size": 88}
    assert sf.hf.cost(shared | {"shared_expert_intermediate_size": 176}) == sf.hf.cost(dense)


def test_what_is_no_configuration():
    with pytest.raises(sf.ConversionError, match="an encoder and a decoder has two lengths"):
        sf.hf.cost(transformers.T5Config())
    for config in (None, {"hidden_size": 64}, "gpt2", {"hidden_size": "a", "n_layer": 2, "n_head": 4}):
        with pytest.raises(TypeError, match="a configuration of a transformer has"):
            sf.hf.cost(config)
