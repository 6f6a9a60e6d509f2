"""Fine-tuning of a small BERT, padded and without padding: the same losses, in less time.

    python examples/finetune.py
    python examples/finetune.py --trainer

Two kinds of made-up texts are to be told apart: in one kind a certain token comes before another.  Lengths are
log-normal, as those of real texts are.  ``--trainer`` runs transformers' Trainer, which needs accelerate.

Needs seqformats[hf]; nothing is downloaded.
"""

import argparse
import time
from typing import Any

import numpy as np
import torch
import transformers

import seqformats as sf

FIRST, SECOND, WORDS = 10, 11, 200


def made_up_texts(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Texts with their kind: 1 where the first token of a pair comes before the second."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        length = int(np.clip(rng.lognormal(3, 0.8), 4, 120))
        text = rng.integers(12, WORDS, length)
        places = np.sort(rng.choice(length, 2, replace=False))
        kind = int(rng.integers(2))
        text[places] = (FIRST, SECOND) if kind else (SECOND, FIRST)
        rows.append({"input_ids": [2, *text.tolist()], "labels": kind})
    return rows


def new_model(*, free: bool) -> Any:
    """Make a small BERT, the same each time."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=WORDS,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=128,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = transformers.BertForSequenceClassification(config)
    return sf.hf.padding_free(model) if free else model


def train(rows: list[dict[str, Any]], *, free: bool, steps: int, size: int = 32) -> tuple[list[float], float]:
    """Train in a plain loop; the loss of each step, and the seconds that all took."""
    model, collate = new_model(free=free).train(), sf.hf.Collator(pad_token_id=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    begun = time.perf_counter()
    for step in range(steps):
        at = step * size % len(rows)
        loss = model(**collate(rows[at : at + size])).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return losses, time.perf_counter() - begun


def train_by_trainer(rows: list[dict[str, Any]], folder: str, *, free: bool, steps: int) -> float:
    """Train by transformers' Trainer, to which nothing is said of padding; the loss of the evaluation."""
    arguments = transformers.TrainingArguments(
        folder,
        max_steps=steps,
        per_device_train_batch_size=32,
        learning_rate=1e-3,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = transformers.Trainer(
        new_model(free=free),
        arguments,
        data_collator=sf.hf.Collator(pad_token_id=0),
        train_dataset=rows,
        eval_dataset=rows[:64],
    )
    trainer.train()
    return float(trainer.evaluate()["eval_loss"])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--trainer", action="store_true")
    given = parser.parse_args(arguments)
    rows = made_up_texts(1024)
    if given.trainer:
        for free in (False, True):
            loss = train_by_trainer(rows, "trainer_output", free=free, steps=given.steps)
            print(f"{'without padding' if free else 'padded':16s} loss {loss:.4f}")
        return
    padded, long = train(rows, free=False, steps=given.steps)
    alone, short = train(rows, free=True, steps=given.steps)
    print(f"padded          loss {padded[0]:.4f} to {padded[-1]:.4f} in {long:.1f} s")
    print(f"without padding loss {alone[0]:.4f} to {alone[-1]:.4f} in {short:.1f} s, {long / short:.1f} times as fast")
    print(f"largest difference of a loss {max(abs(a - b) for a, b in zip(padded, alone, strict=True)):.0e}")


if __name__ == "__main__":
    main()
