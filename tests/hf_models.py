"""Tiny models of transformers with random weights, and their `generate`; nothing is downloaded."""

import inspect

import numpy as np
import torch
import transformers

transformers.logging.set_verbosity_error()

WORDS = 40
PADDING, END = 0, 1


def cache_name(model):
    """What a model calls its cache; transformers 5.24 renamed it."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


def gpt2():
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=WORDS, n_positions=64, n_embd=32, n_layer=2, n_head=2, initializer_range=0.5)
    )


def llama():
    """With groups of heads that share keys, and rotated positions."""
    config = transformers.LlamaConfig(
        vocab_size=WORDS,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.3,
        max_position_embeddings=64,
    )
    return transformers.LlamaForCausalLM(config)


def bloom():
    """Without positions, but with a bias that is made of the mask."""
    config = transformers.BloomConfig(
        vocab_size=WORDS, hidden_size=32, n_layer=2, n_head=4, initializer_range=0.3, bos_token_id=2, eos_token_id=END
    )
    return transformers.BloomForCausalLM(config)


def t5():
    config = transformers.T5Config(
        vocab_size=WORDS, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, initializer_factor=0.8,
        tie_word_embeddings=False,
    )  # fmt: skip
    model = transformers.T5ForConditionalGeneration(config)
    model.shared.weight.data *= 0.1  # more than the last token shall count
    model.lm_head.weight.data *= 8
    return model


def bart():
    config = transformers.BartConfig(
        vocab_size=WORDS, d_model=32, encoder_layers=1, decoder_layers=2, encoder_ffn_dim=48, decoder_ffn_dim=48,
        encoder_attention_heads=2, decoder_attention_heads=4, max_position_embeddings=64, init_std=0.4,
        bos_token_id=3, forced_eos_token_id=None, forced_bos_token_id=None, tie_word_embeddings=False,
    )  # fmt: skip
    return transformers.BartForConditionalGeneration(config)


DECODERS = {"gpt2": gpt2, "llama": llama, "bloom": bloom}
PAIRS = {"t5": t5, "bart": bart}
START = {"t5": 0, "bart": 2}


def made(name, seed=5, **attention):
    """A model by name, whose answers are likely and unlikely, and whose searches end early and late."""
    torch.manual_seed(seed)
    model = {**DECODERS, **PAIRS}[name]().eval()
    if attention:
        model.set_attn_implementation(**attention)
    settings = model.generation_config
    settings.bos_token_id = settings.forced_eos_token_id = settings.forced_bos_token_id = None
    settings.pad_token_id, settings.decoder_start_token_id = PADDING, START.get(name)
    return model


def prompts(lengths, seed=0):
    """Lists of random tokens, none of which ends or pads."""
    rng = np.random.default_rng(seed)
    return [rng.integers(3, WORDS, length).tolist() for length in lengths]


def padded(lists, left):
    """Ids and their mask, padded on one side."""
    longest = max(map(len, lists))
    ids, mask = torch.full((len(lists), longest), PADDING), torch.zeros(len(lists), longest, dtype=torch.int64)
    for i, tokens in enumerate(lists):
        where = slice(longest - len(tokens), None) if left else slice(len(tokens))
        ids[i, where], mask[i, where] = torch.tensor(tokens), 1
    return {"input_ids": ids, "attention_mask": mask}


def generated(model, given, ends=(END,), **options):
    """What `generate` finds: tokens, scores, and all that it returns."""
    with torch.no_grad():
        out = model.generate(
            **given, do_sample=False, eos_token_id=list(ends), return_dict_in_generate=True, output_scores=True,
            **options,
        )  # fmt: skip
    lengths = (out.beam_indices >= 0).sum(1).tolist()
    start = out.sequences.shape[1] - out.beam_indices.shape[1]
    return [row[start : start + n] for row, n in zip(out.sequences.tolist(), lengths, strict=True)], out


def assert_alike(found, tokens, scores):
    """A result has these hypotheses, one after the other."""
    assert [hypothesis for source in found.tokens.to_nested() for hypothesis in source] == tokens
    np.testing.assert_allclose(np.asarray(found.scores), scores, rtol=2e-4, atol=2e-4)
