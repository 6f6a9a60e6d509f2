"""Models of transformers: padded, in batches sorted by length, and by `sf.hf.padding_free`.

Run it by ``python -m benchmarks.unpadded``.  Times are of the CPU, of one thread, so that other work on the machine
changes little; all ways in turns, the fastest of several rounds.
"""

import argparse
import copy
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import transformers

import seqformats as sf

WORDS, BATCH, GROUPS = 8000, 64, 8
SIZE = {
    "vocab_size": WORDS,
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
    "max_position_embeddings": 512,
}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
MODELS: dict[str, Callable[[], Any]] = {
    "BERT": lambda: transformers.BertModel(transformers.BertConfig(**SIZE, **NO_DROPOUT)),
    "Llama": lambda: transformers.LlamaModel(transformers.LlamaConfig(**SIZE, num_key_value_heads=2)),
}


def drawn_texts(seed: int = 0) -> list[torch.Tensor]:
    """Token ids of log-normal lengths, about 60 on the average."""
    rng = np.random.default_rng(seed)
    lengths = np.minimum(rng.lognormal(np.log(60) - 0.32, 0.8, BATCH).astype(int) + 1, 256)
    return [torch.from_numpy(rng.integers(6, WORDS, n)) for n in lengths]


def padded(texts: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    pad = torch.nn.utils.rnn.pad_sequence
    return {
        "input_ids": pad(texts, batch_first=True),
        "attention_mask": pad([torch.ones_like(text) for text in texts], batch_first=True),
    }


def measure(name: str, rounds: int) -> None:
    """Print the milliseconds of each way, forward and with gradients."""
    model = MODELS[name]()
    free = sf.hf.padding_free(copy.deepcopy(model))
    texts = drawn_texts()
    ids = sf.convert(texts, sf.Ragged)
    order = sorted(range(BATCH), key=lambda i: len(texts[i]))
    size = BATCH // GROUPS
    groups = [padded([texts[i] for i in order[k : k + size]]) for k in range(0, BATCH, size)]
    whole = padded(texts)
    ways: dict[str, Callable[[], list[torch.Tensor]]] = {
        "padded": lambda: [model(**whole).last_hidden_state],
        f"sorted, {GROUPS} batches": lambda: [model(**group).last_hidden_state for group in groups],
        "padding_free": lambda: [free(input_ids=ids).last_hidden_state.data],
    }
    best: dict[tuple[str, bool], float] = {}
    rng = np.random.default_rng(1)
    for _ in range(rounds):
        for way in rng.permutation(list(ways)).tolist():
            for back in (False, True):
                model.zero_grad()
                free.zero_grad()
                begun = time.process_time()
                with torch.set_grad_enabled(back):
                    out = sum(x.square().mean() for x in ways[way]())
                if back:
                    out.backward()  # type: ignore[union-attr]
                best[way, back] = min(best.get((way, back), np.inf), time.process_time() - begun)
    print(f"{name}: {ids.rows} tokens in {whole['input_ids'].numel()} places")
    for way in ways:
        shown = [
            f"{1e3 * best[way, back]:7.0f} ms, {best['padded', back] / best[way, back]:.1f} times"
            for back in (False, True)
        ]
        print(f"  {way:18s} {shown[0]}   with gradients {shown[1]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    given = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    for name in given.models:
        measure(name, given.rounds)


if __name__ == "__main__":
    main()
