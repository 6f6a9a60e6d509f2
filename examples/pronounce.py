"""How English words are pronounced: a GRU encoder-decoder, decoded with ragged beams.

    python examples/pronounce.py                        some words
    python examples/pronounce.py knight nite -n 3       words of your own, three pronunciations each
    python examples/pronounce.py -f words.txt           the words of a UTF-8 file; - is the standard input

The trained weights are those that the package g2p-en ships (`pip install --no-deps g2p-en`).  They are read from its
folder, the package itself is not imported: that would download data.  The encoder runs over time steps, and a word that
has ended leaves.  The decoder, `sf.beam_search`, computes only the prefixes that are alive, and the GRU's state follows
them.  Pronunciations are in ARPAbet; the score of one is the mean log-probability of its phonemes.
"""

import argparse
import math
import os
import reprlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# The matrix products below are small: threads of BLAS would mostly wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import seqformats as sf

LETTER_IDS = {letter: k for k, letter in enumerate("abcdefghijklmnopqrstuvwxyz", 3)}  # after <pad>, <unk> and </s>
END_OF_WORD = 2
VOWELS = ["AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH", "UW"]
VOICED = ["B", "D", "DH", "G", "JH", "L", "M", "N", "NG", "R", "V", "W", "Y", "Z", "ZH"]
VOICELESS = ["CH", "F", "HH", "K", "P", "S", "SH", "T", "TH"]
STRESSED = [vowel + stress for vowel in VOWELS for stress in "012"]
PHONEMES = ["<pad>", "<unk>", "<s>", "</s>", *sorted([*STRESSED, "UW", *VOICED, *VOICELESS])]
PAD, UNKNOWN, START, END = range(4)
MAX_PHONEMES = 20
WORDS = ["activationist", "beam", "knight", "numba", "paddle", "ragged", "seqformats", "tensor", "translation"]
BATCH = 1000  # words at a time
HEADER = """ARPAbet, with the stress behind each vowel: 1 main, 2 secondary, 0 none.
score: mean log-probability of a phoneme, 0 is certain.  decoder rows: hypotheses that the model computed.
"""
BLOCK = 512  # rows at a time: what the GRU writes stays in the processor's cache


class NotInstalled(Exception):
    """What has to be installed is not there."""


class GRU:
    """A GRU of PyTorch's equations over embedded tokens, laid out for speed."""

    def __init__(self, embedding: np.ndarray, w_ih: np.ndarray, w_hh: np.ndarray, b_ih: np.ndarray, b_hh: np.ndarray):
        self.width = len(w_hh) // 3
        gates = slice(0, 2 * self.width)  # reset and update
        # What a token adds is looked up.  The last third of b_hh stays apart: the reset gate multiplies it.
        self.table = embedding @ w_ih.T + b_ih
        self.table[:, gates] += b_hh[gates]
        self.bias = b_hh[2 * self.width :]
        self.recurrent = np.ascontiguousarray(w_hh.T)
        # The sign that sigmoid(x) = 1 / (1 + exp(-x)) needs goes into the weights.
        self.table[:, gates] *= -1
        self.recurrent[:, gates] *= -1

    def __call__(self, tokens: np.ndarray, hidden: np.ndarray) -> np.ndarray:
        """The next states: tokens ``(rows,)`` and states ``(rows, width)`` to ``(rows, width)``."""
        out = np.empty_like(hidden)
        for first in range(0, len(hidden), BLOCK):
            rows = slice(first, first + BLOCK)
            self._block(self.table[tokens[rows]], hidden[rows], out[rows])
        return out

    def _block(self, given: np.ndarray, before: np.ndarray, out: np.ndarray) -> None:
        width = self.width
        held = before @ self.recurrent
        gates, new = given[:, : 2 * width], held[:, 2 * width :]
        gates += held[:, : 2 * width]
        with np.errstate(over="ignore"):  # 1 / (1 + inf) is the 0 that it should be
            np.exp(gates, out=gates)
        gates += 1
        np.divide(1, gates, out=gates)
        new += self.bias
        new *= gates[:, :width]
        new += given[:, 2 * width :]
        np.tanh(new, out=new)
        np.subtract(before, new, out=out)  # new + update * (before - new)
        out *= gates[:, width:]
        out += new


class Pronouncer:
    """The model: letters in, phonemes out.  There is no attention: the decoder's state is all that it knows."""

    def __init__(self, arrays: Mapping[str, np.ndarray]):
        names = ("emb", "w_ih", "w_hh", "b_ih", "b_hh")
        self.encoder = GRU(*(arrays[f"enc_{name}"] for name in names))
        self.decoder = GRU(*(arrays[f"dec_{name}"] for name in names))
        self.weights, self.bias = np.ascontiguousarray(arrays["fc_w"].T), arrays["fc_b"]

    def encode(self, words: Sequence[str]) -> np.ndarray:
        """One state per word, ``(words, width)``.  `Packed` has the longest first, so a word that has ended leaves."""
        ids = [[*(LETTER_IDS[letter] for letter in word), END_OF_WORD] for word in words]
        packed = sf.convert(sf.Ragged(np.concatenate(ids), [len(row) for row in ids]), sf.Packed)
        states = np.zeros((len(words), self.encoder.width), np.float32)
        first = 0
        for alive in packed.size_at_t.tolist():
            states[:alive] = self.encoder(packed.data[first : first + alive], states[:alive])
            first += alive
        return sf.reorder(states, sf.inverse_order(packed.indices))

    def step(self, tokens: np.ndarray, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The logits of the next phoneme after each token, and the new states."""
        states = self.decoder(tokens, states)
        logits = states @ self.weights
        logits += self.bias
        return logits, states


def load_model() -> Pronouncer:
    """The weights from the folder of the package g2p-en, which is not imported."""
    found = find_spec("g2p_en")
    if found is None or not found.submodule_search_locations:
        raise NotInstalled("the weights are those of the package g2p-en: pip install --no-deps g2p-en")
    path = Path(found.submodule_search_locations[0]) / "checkpoint20.npz"
    if not path.exists():
        raise NotInstalled(f"{path} is not there; version 2.1.0 has it: pip install --no-deps g2p-en==2.1.0")
    with np.load(path) as arrays:
        return Pronouncer(arrays)


def decode(model: Pronouncer, states: np.ndarray, **options: Any) -> Any:
    """The result of `sf.beam_search`; its tokens are a LoD [word -> pronunciations, pronunciation -> phonemes]."""
    return sf.beam_search(
        lambda state: model.step(np.asarray(state.tokens), state.memory),
        states,
        start=START,
        end=END,
        constraints=[sf.BannedTokens([PAD, UNKNOWN, START])],
        **({"max_new_tokens": MAX_PHONEMES} | options),
    )


# The command


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    lines = (__doc__ or "").splitlines()
    parser = argparse.ArgumentParser(prog="pronounce", description=lines[0])
    parser.add_argument("words", nargs="*", help="letters a-z, upper or lower case; without any, some examples")
    parser.add_argument("-f", "--file", help="UTF-8 text, words between white space; - is the standard input")
    parser.add_argument("-n", "--n-best", type=positive, default=1, help="pronunciations a word (%(default)s)")
    parser.add_argument("-k", "--beam-size", type=positive, help="prefixes kept a word (5, or as many as --n-best)")
    parser.add_argument("-t", "--threshold", type=finite, help="drop prefixes worse than the best by more than this")
    parser.add_argument("-p", "--length-penalty", type=finite, default=1.0, help="scores / length**p (%(default)s)")
    parser.add_argument("-m", "--max-phonemes", type=positive, default=MAX_PHONEMES, help="at most (%(default)s)")
    args = parser.parse_args(arguments)
    if args.words and args.file:
        parser.error("give words or a file, not both")
    if args.beam_size is None:
        args.beam_size = max(5, args.n_best)
    if args.n_best > args.beam_size:
        parser.error(f"a beam of {args.beam_size} does not give {args.n_best} pronunciations")
    if args.threshold is not None and args.threshold < 0:
        parser.error(f"a threshold is 0 or more, not {args.threshold:g}")
    return args


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{text} is not finite")
    return number


def read_words(path: str) -> list[str]:
    text = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    return text.decode("utf-8-sig").split()


def problem(word: str) -> str | None:
    """Why a word cannot be pronounced."""
    if not word:
        return "is empty"
    for letter in word.lower():
        if letter not in LETTER_IDS:
            return f"{reprlib.repr(word)} has {letter!r} (U+{ord(letter):04X}), but the letters are a-z"
    return None


def show_progress(done: int, total: int) -> None:
    """A bar where the input is long and the standard error a terminal; nothing of it stays."""
    if total > BATCH and sys.stderr.isatty():
        bar = f"[{'#' * (40 * done // total):<40}] {done}/{total} words" if done < total else ""
        print(f"\r\x1b[K{bar}", end="", file=sys.stderr, flush=True)


def lines_of(words: Sequence[str], result: Any, width: int) -> Iterator[str]:
    """The word beside its first pronunciation, the others below."""
    scores = iter(result.scores.tolist())
    for word, found in zip(words, result.tokens.to_nested(), strict=True):
        label = word
        for phonemes in found:
            ended = phonemes[-1:] == [END]
            text = " ".join(PHONEMES[k] for k in phonemes[: len(phonemes) - ended])
            yield f"{label:<{width}}  {next(scores):7.3f}  {text}{'' if ended else ' ...'}"
            label = ""


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse_arguments(arguments)
    try:
        given = read_words(args.file) if args.file else args.words or WORDS
        if not given:
            return fail(f"{args.file} has no words")
        model = load_model()
    except OSError as error:
        return fail(f"cannot read {error.filename or args.file}: {error.strerror}")
    except UnicodeDecodeError as error:
        return fail(f"{args.file} is not UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}")
    except NotInstalled as error:
        return fail(str(error))
    words = []
    for k, word in enumerate(given, 1):
        if trouble := problem(word):
            fail(f"word {k} {trouble}")
        else:
            words.append(word.lower())
    options = {
        "beam_size": args.beam_size,
        "n_best": args.n_best,
        "length_penalty": args.length_penalty,
        "max_new_tokens": args.max_phonemes,
        "prune": None if args.threshold is None else sf.Prune(absolute=args.threshold),
    }
    width = max(len(word) for word in ["word", *words])
    rows, seconds = 0, 0.0
    if words:  # the first call loads the kernels, which the time below is not about
        decode(model, model.encode(words[:1]), **options)
        print(HEADER)
        print(f"{'word':<{width}}    score  phonemes")
    for first in range(0, len(words), BATCH):
        show_progress(first, len(words))
        part = words[first : first + BATCH]
        start = time.perf_counter()
        result = decode(model, model.encode(part), **options)
        seconds += time.perf_counter() - start
        rows += result.rows
        show_progress(len(words), len(words))
        print("\n".join(lines_of(part, result, width)))
    if words:
        many = "word" if len(words) == 1 else "words"
        threshold = "" if args.threshold is None else f", threshold {args.threshold:g}"
        print(
            f"\n{len(words)} {many}, beam of {args.beam_size}{threshold}: {rows} decoder rows in {1e3 * seconds:.0f} ms"
        )
    return int(len(words) < len(given))


def fail(message: str) -> int:
    print(f"pronounce: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    try:
        status = main()
        sys.stdout.flush()
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            print(file=sys.stderr)  # below the bar
        sys.exit("pronounce: interrupted")
    except BrokenPipeError:  # whoever reads the output has seen enough; nothing is left for Python to flush
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    sys.exit(status)
