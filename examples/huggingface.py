"""Beam search over models of transformers, with the caches that they make themselves.

    python examples/huggingface.py                      GPT-2, Llama, T5 and BART, beside their own `generate`
    python examples/huggingface.py llama t5 -k 8 -t 40  some of them, with wider beams and longer hypotheses

What it needs is torch and transformers; nothing is downloaded.  The models are small and their weights random, so what
they say means nothing, but `generate` must say the same.  Prompts come as they are, each with its own length.  A model
reads them once, whatever the beam size, and a source that is done costs nothing more; `generate` gives it every prompt
once a beam, and goes on with all rows until the last source is done.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

import seqformats as sf

WORDS = 2000
PADDING, END = 0, 1
LENGTHS = [3, 12, 7, 1, 20, 5, 9, 9]
LIMIT = 1e-3  # the largest difference allowed between scores


class NotInstalled(Exception):
    """What has to be installed is not there."""


def make(name: str) -> Any:
    """A model with random weights."""
    import torch
    import transformers

    torch.manual_seed(0)
    sizes = {"vocab_size": WORDS, "pad_token_id": PADDING, "eos_token_id": END, "bos_token_id": None}
    if name == "gpt2":
        own = {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 128, "initializer_range": 0.3}
        model: Any = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **own))
    elif name == "llama":  # two heads share their keys
        own = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3, "initializer_range": 0.3}
        heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **own, **heads))
    elif name == "t5":
        own = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 3, "num_heads": 4, "decoder_start_token_id": 0}
        model = transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes, **own, initializer_factor=2.0))
    else:
        own = {"d_model": 64, "encoder_layers": 3, "decoder_layers": 3, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128}
        heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "max_position_embeddings": 128}
        more = {"init_std": 0.2, "decoder_start_token_id": 2, "forced_eos_token_id": None}
        model = transformers.BartForConditionalGeneration(transformers.BartConfig(**sizes, **own, **heads, **more))
    return model.eval()


def search(model: Any, texts: sf.Ragged, beam_size: int, most: int) -> sf.BeamResult:
    """What this library finds."""
    options: dict[str, Any] = {"end": END, "beam_size": beam_size, "n_best": 2, "max_new_tokens": most}
    if model.config.is_encoder_decoder:
        step = sf.hf.encoder_decoder_step(model)
        start = model.generation_config.decoder_start_token_id
        return sf.beam_search(step, None, shared=texts, start=start, **options)
    return sf.beam_search(sf.hf.decoder_step(model), None, prompt=texts, **options)


def generate(model: Any, texts: sf.Ragged, beam_size: int, most: int) -> Any:
    """What transformers finds: it pads, a decoder on the left."""
    padded = sf.hf.Collator(
        pad_token_id=PADDING, padding_side="right" if model.config.is_encoder_decoder else "left", return_tensors="pt"
    )(texts.to_nested())
    return model.generate(
        **padded,
        do_sample=False,
        num_beams=beam_size,
        num_return_sequences=2,
        max_new_tokens=most,
        return_dict_in_generate=True,
        output_scores=True,
    )


def timed(functions: Sequence[Callable[..., Any]], rounds: int, *args: Any) -> list[tuple[Any, float]]:
    """What each function returns, and the fewest milliseconds that it took, in turns, after a run to warm up."""
    found = [function(*args) for function in functions]
    best = [math.inf] * len(functions)
    for _ in range(rounds):
        for i, function in enumerate(functions):
            begin = time.perf_counter()
            function(*args)
            best[i] = min(best[i], 1e3 * (time.perf_counter() - begin))
    return list(zip(found, best, strict=True))


def compare(name: str, beam_size: int, most: int, rounds: int) -> bool:
    """Show one model's hypotheses; are they those of `generate`?"""
    import torch

    tokens = np.random.default_rng(1).integers(3, WORDS, sum(LENGTHS))
    texts = sf.Ragged(torch.from_numpy(tokens), LENGTHS)
    model = make(name)
    (mine, ours), (theirs, others) = timed([search, generate], rounds, model, texts, beam_size, most)
    apart = float(abs(np.asarray(mine.scores) - theirs.sequences_scores.numpy()).max())
    same = "the same scores" if apart < LIMIT else f"scores that differ by {apart:.1e}"
    print(f"{name}: {ours:.0f} ms for {mine.rows} rows, generate {others:.0f} ms; {same}")
    for i, source in enumerate(mine.tokens.to_nested()[:2]):
        for found, score, ended in zip(source, mine.scores[2 * i :], mine.ended[2 * i :], strict=False):
            print(f"{float(score):8.3f}  {found[:8]}{'' if ended and len(found) <= 8 else ' ...'}")
    return apart < LIMIT


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Beam search over models of transformers.")
    parser.add_argument("models", nargs="*", default=[], help="gpt2, llama, t5, bart; without any, all four")
    parser.add_argument("-k", "--beam-size", type=int, default=4)
    parser.add_argument("-t", "--tokens", type=int, default=20, help="how long hypotheses are at most")
    parser.add_argument("-r", "--rounds", type=int, default=3, help="how often both are timed, in turns")
    asked = parser.parse_args(arguments)
    known = ["gpt2", "llama", "t5", "bart"]
    names = asked.models or known
    unknown = [name for name in names if name not in known]
    if unknown or asked.beam_size < 2 or min(asked.tokens, asked.rounds) < 1:
        parser.error(f"there is no model {unknown[0]}" if unknown else "beams of 2 at least, a token, a round")
    missing = [library for library in ("torch", "transformers") if find_spec(library) is None]
    if missing:
        raise NotInstalled(f"{' and '.join(missing)} must be installed: pip install 'seqformats[hf]'")
    same = [compare(name, asked.beam_size, asked.tokens, asked.rounds) for name in names]
    return 0 if all(same) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except NotInstalled as error:
        sys.exit(str(error))
