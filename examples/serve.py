"""Requests that come while others are searched: a loop as a server has it, beside batches that wait for each other.

    python examples/serve.py                  40 requests to a GPT-2 with random weights, 8 of them at a time
    python examples/serve.py -n 100 -b 16     other numbers

What it needs is torch and transformers; nothing is downloaded.  Requests come at random steps, with prompts and limits
of their own.  In batches the next ones begin when the last one of the batch is done; otherwise a `BeamDecoder` takes a
request in as soon as there is room, and gives its answer as soon as it is there.  The answers are the same.
"""

import argparse
import sys
from collections import deque
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

import seqformats as sf

WORDS, END = 500, 1
OPTIONS: dict[str, Any] = {"end": END, "beam_size": 4}
LONGEST = 40  # new tokens


class NotInstalled(Exception):
    """What has to be installed is not there."""


class Request(NamedTuple):
    """What somebody asks for, and at which step of the model."""

    at: int
    prompt: list[int]
    most: int


class Answers(NamedTuple):
    """What was answered to each request, how long it has waited, and what that cost."""

    tokens: dict[int, list[int]]
    waited: dict[int, int]  # steps
    steps: int
    rows: int


def make() -> Any:
    """A model with random weights."""
    import torch
    import transformers

    torch.manual_seed(0)
    sizes = {"vocab_size": WORDS, "n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 128}
    config = transformers.GPT2Config(**sizes, initializer_range=0.3, bos_token_id=None, eos_token_id=END)
    return transformers.GPT2LMHeadModel(config).eval()


def asked(count: int, seed: int = 0) -> list[Request]:
    """Requests in the order in which they come."""
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.poisson(2, count))
    prompts = [rng.integers(2, WORDS, rng.integers(1, 12)).tolist() for _ in range(count)]
    limits = np.minimum(rng.geometric(0.1, count), LONGEST)
    return [Request(*one) for one in zip(times.tolist(), prompts, limits.tolist(), strict=True)]


def serve(model: Any, requests: list[Request], most: int, *, together: bool) -> Answers:
    """Answer requests, at most so many at a time; `together`: do new ones wait until all are done?"""
    step, waiting = sf.hf.decoder_step(model), deque(enumerate(requests))
    decoder = sf.BeamDecoder(None, prompt=[], max_new_tokens=[], **OPTIONS)
    tokens: dict[int, list[int]] = {}
    waited, now, calls, rows = {}, 0, 0, 0
    while waiting or decoder.active:
        room = most - len(decoder.sources)
        new: list[Request] = []
        while waiting and waiting[0][1].at <= now and len(new) < room and not (together and room < most):
            new.append(waiting.popleft()[1])
        if new:
            decoder.add(None, prompt=[one.prompt for one in new], max_new_tokens=[one.most for one in new])
        if decoder.active:
            decoder.step(*step(decoder.state))
            calls += 1
        now += 1
        numbers, found = decoder.take()
        rows += found.rows
        for number, hypotheses in zip(numbers.tolist(), found.tokens.to_nested(), strict=True):
            tokens[number], waited[number] = hypotheses[0], now - requests[number].at
    return Answers(tokens, waited, calls, rows)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Requests that come while others are searched.")
    parser.add_argument("-n", "--requests", type=int, default=40)
    parser.add_argument("-b", "--batch", type=int, default=8, help="how many are searched at a time")
    given = parser.parse_args(arguments)
    if given.requests < 1 or given.batch < 1:
        parser.error("a request at least, and a batch of one")
    missing = [library for library in ("torch", "transformers") if find_spec(library) is None]
    if missing:
        raise NotInstalled(f"{' and '.join(missing)} must be installed: pip install 'seqformats[hf]'")
    model, requests = make(), asked(given.requests)
    answers = {
        name: serve(model, requests, given.batch, together=together)
        for name, together in (("in batches", True), ("one by one", False))
    }
    for name, found in answers.items():
        waits = np.array(list(found.waited.values()))
        print(
            f"{name}: {found.steps} steps of the model with {found.rows / found.steps:.1f} rows each; an answer takes "
            f"{waits.mean():.1f} steps, one of ten {np.quantile(waits, 0.9):.0f} or more"
        )
    same = answers["in batches"].tokens == answers["one by one"].tokens
    print("the answers are the same" if same else "the answers differ")
    return 0 if same else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except NotInstalled as error:
        sys.exit(str(error))
