"""Beam search: one step, and whole searches with a model that costs nothing.

The model is a table of logits by the last token, so both sides pay the same for it: one gather of rows into memory that
is there already.
"""

import functools
from typing import Any

import numpy as np

import seqformats as sf

from .cells import Case, Limit, Peer, operation, plain
from .data import SHAPES, Batch, Shape
from .peers import torch, transformers

STEPS, CONTEXTS = 20, 61
END = 0
SEARCHES = ("32 x 5 x 32,000", "32 x 5 x 74", "1 x 5 x 32,000")
STEPS_OF = (*SEARCHES, "4 x 100 x 8,000", "4 x 300 x 100")  # the last ones as retrieval has them

for _name in STEPS_OF:  # these have no sequences to begin with: only the name and the arrays count
    SHAPES[_name] = Shape(int(_name.partition(" ")[0]), 1, ())


def sizes(b: Batch) -> tuple[int, int]:
    """How many beams, and how many tokens."""
    _, beams, words = b.name.replace(",", "").split(" x ")
    return int(beams), int(words)


@functools.cache
def table(vocabulary: int, end: float) -> np.ndarray:
    """Logits of the next token by the last one; `end` is added to those of the end."""
    found = np.random.default_rng(0).normal(0, 2, (CONTEXTS, vocabulary)).astype(np.float32)
    found[:, END] = found[:, END] * 0.1 + end
    return found


def decoder(b: Batch, scores: Any) -> sf.BeamDecoder:
    """A search after some steps: every source has all its beams, and may go on for as long as anyone measures."""
    beams, _ = sizes(b)
    start = b.put(np.arange(b.n) + 1)
    # shared memory says which library the arrays of the search are of
    made = sf.BeamDecoder(None, shared=start, start=start, end=END, beam_size=beams, max_new_tokens=100_000)
    while len(made.state.tokens) < b.n * beams:
        made.step(scores[: len(made.state.tokens)])
    return made


@operation("beam step", STEPS_OF, cuda=True)
def _(b: Batch) -> Case:
    """Log-softmax, the score so far, and twice as many of each source as it has beams; ours also orders the beams."""
    beams, words = sizes(b)
    rows = np.random.default_rng(1).normal(0, 2, (b.n * beams, words)).astype(np.float32)
    rows[:, END] = -100
    scores = b.put(rows)
    before = decoder(b, scores)._search.live.rows.values.reshape(b.n, beams, 1)

    def ours(search: sf.BeamDecoder) -> Any:
        search.step(scores)
        return search

    def read(search: sf.BeamDecoder) -> Any:
        return search._search.live.rows.values

    def chosen(best: Any) -> Any:
        """The best, in the order of the beams."""
        return plain(best[0])[:, :beams].reshape(-1)

    if b.arrays == "NumPy":

        def idiom() -> Any:
            shifted = scores - scores.max(1, keepdims=True)
            shifted -= np.log(np.exp(shifted).sum(1, keepdims=True))
            total = (shifted.reshape(b.n, beams, words) + before).reshape(b.n, -1)
            some = np.argpartition(-total, 2 * beams, axis=1)[:, : 2 * beams]
            found = np.take_along_axis(total, some, 1)
            order = np.argsort(-found, axis=1, kind="stable")
            return np.take_along_axis(found, order, 1), np.take_along_axis(some, order, 1)

        peers = {"NumPy argpartition": Peer(idiom, chosen)}
    else:
        so_far = torch.from_numpy(before.copy()).to(b.device)

        def fused() -> Any:
            logits = scores.to(dtype=torch.float32, copy=True)  # as generate does
            total = (torch.log_softmax(logits, -1).view(b.n, beams, words) + so_far).view(b.n, -1)
            return torch.topk(total, 2 * beams)

        peers = {"copy, log_softmax, add, topk": Peer(fused, chosen)}
    return Case(Peer(ours, read, lambda: decoder(b, scores)), peers, Limit(rows.nbytes), exact=False)


class Model:
    """Logits by the last token, in memory that is kept."""

    def __init__(self, vocabulary: int, arrays: str, device: str, rows: int) -> None:
        known = table(vocabulary, 4.0)
        self.numpy = arrays == "NumPy"
        self.table = known if self.numpy else torch.from_numpy(known).to(device)
        self.room = np.empty((rows, vocabulary), np.float32)
        if not self.numpy:
            self.room = torch.from_numpy(self.room).to(device)

    def __call__(self, tokens: Any) -> Any:
        room = self.room[: len(tokens)]
        if self.numpy:
            return np.take(self.table, tokens % CONTEXTS, axis=0, out=room, mode="clip")
        return torch.index_select(self.table, 0, tokens % CONTEXTS, out=room)


def generate(b: Batch) -> Any:
    """`generate` of transformers around the same model."""
    beams, words = sizes(b)

    class Config(transformers.PretrainedConfig):
        model_type = "table"

    class Table(transformers.PreTrainedModel, transformers.GenerationMixin):
        config_class = Config
        main_input_name = "input_ids"

        def __init__(self) -> None:
            super().__init__(Config(vocab_size=words, num_hidden_layers=1, is_encoder_decoder=False))
            self.unused = torch.nn.Parameter(torch.zeros(1))  # tells which device and dtype the model has
            self.logits = Model(words, "PyTorch", b.device, b.n * beams)

        def prepare_inputs_for_generation(self, input_ids: Any, attention_mask: Any = None, **_: Any) -> dict[str, Any]:
            return {"input_ids": input_ids}

        def forward(self, input_ids: Any, **_: Any) -> Any:
            logits = self.logits(input_ids[:, -1])
            return transformers.modeling_outputs.CausalLMOutput(logits=logits[:, None])

    transformers.logging.set_verbosity_error()
    model = Table().eval().to(b.device)
    prompts = torch.arange(1, b.n + 1, device=b.device)[:, None]
    mask = torch.ones_like(prompts)

    def run() -> Any:
        with torch.no_grad():
            return model.generate(
                prompts,
                attention_mask=mask,
                num_beams=beams,
                max_new_tokens=STEPS,
                eos_token_id=END,
                pad_token_id=words,
                do_sample=False,
                use_cache=False,
            )

    return run


@operation("whole search", SEARCHES, cuda=True)
def _(b: Batch) -> Case:
    """Up to twenty steps, the model included, and its best hypothesis of each source."""
    beams, words = sizes(b)
    model = Model(words, b.arrays, b.device, b.n * beams)
    start = b.put(np.arange(b.n) + 1)

    def ours() -> Any:
        return sf.beam_search(
            lambda state: (model(state.tokens), None),
            None,
            shared=start,  # the search takes the library of its memory
            start=start,
            end=END,
            beam_size=beams,
            max_new_tokens=STEPS,
        )

    def tokens(result: Any) -> Any:
        nested = result.tokens.to_nested()
        return np.concatenate([[END, *hypotheses[0]] for hypotheses in nested])

    def unpadded(found: Any) -> Any:
        rows = [[k for k in row if k != words] for row in found[:, 1:].tolist()]
        return np.concatenate([[END, *row] for row in rows])

    peers = {}
    if b.arrays == "PyTorch":
        peers["transformers generate"] = Peer(generate(b), unpadded) if transformers else Peer(no_peer)
    return Case(Peer(ours, tokens), peers)


def no_peer() -> None:
    """Asks for what is not installed."""
    transformers.generate()
