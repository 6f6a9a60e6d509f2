"""Lines of print, read by a model of PaddleOCR: the best path, the best label, and the best one by the words there are.

    python examples/read_lines.py                    40 lines of Python's own help, printed small and noisily
    python examples/read_lines.py -n 100 --noise 60  more of them, and harder to read

What it needs is onnxruntime and Pillow, and the package rapidocr-onnxruntime for the model that is in it, 11 MB;
nothing is downloaded.  The model gives 6,625 probabilities for each 8 columns of an image.  Lines are as wide as they
are, so their frames are a `Ragged`; nothing is padded.

`sf.ctc_greedy` takes the most likely token of every frame, `sf.ctc_beam_search` adds up the paths of a label, and with
a `Trie` of the words that there are (here all of the help, the right ones among them) it reads no others.  With a
`ctc.WordModel` of pairs of words, made of the lines of the help that are not read here, it knows which go together.
"""

import argparse
import math
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from pipeline import read_topics

import seqformats as sf

HEIGHT = 48  # of images, as the model wants them
BLANK = 0


class NotInstalled(Exception):
    """What has to be installed is not there."""


class Reader:
    """The model, and its alphabet."""

    def __init__(self) -> None:
        missing = [name for name in ("onnxruntime", "rapidocr_onnxruntime", "PIL") if find_spec(name) is None]
        if missing:
            raise NotInstalled(f"{' and '.join(missing)} must be installed: see the head of this file")
        import onnxruntime

        spec = find_spec("rapidocr_onnxruntime")
        assert spec is not None
        assert spec.origin is not None
        (path,) = (Path(spec.origin).parent / "models").glob("*_rec_*.onnx")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        letters = self.session.get_modelmeta().custom_metadata_map["character"].splitlines()
        self.letters = ["", *letters, " "]
        self.space = len(self.letters) - 1
        self.numbers = {letter: number for number, letter in enumerate(self.letters)}

    def frames(self, image: np.ndarray) -> np.ndarray:
        """Log-probabilities ``(frames, letters)`` of an image ``(HEIGHT, width)``, and a space behind them.

        With it the last word ends as the others do.
        """
        x = ((image / 255 - 0.5) / 0.5).astype(np.float32)
        (found,) = self.session.run(None, {"x": np.repeat(x[None, None], 3, 1)})[0]
        last = np.full((1, len(self.letters)), -np.inf, np.float32)
        last[0, self.space] = 0
        return np.concatenate([np.log(np.maximum(found, 1e-30)), last])

    def array(self, text: str) -> np.ndarray:
        return np.array([self.numbers[letter] for letter in text], np.int64)

    def text(self, tokens: list[int]) -> str:
        return "".join(self.letters[token] for token in tokens).strip()


def draw(text: str, noise: float, rng: np.random.Generator) -> np.ndarray:
    """An image of a line, as a bad scan shows it."""
    from PIL import Image, ImageDraw, ImageFont

    font: Any = ImageFont.load_default(32)
    width = int(font.getlength(text)) + 16
    image = Image.new("L", (width, HEIGHT), 255)
    ImageDraw.Draw(image).text((8, 4), text, fill=40, font=font)
    small = image.resize((width // 3, HEIGHT // 3), Image.Resampling.BILINEAR)
    gray = np.asarray(small.resize((width, HEIGHT), Image.Resampling.BILINEAR), np.float32)
    return np.clip(gray + rng.normal(0, noise, gray.shape), 0, 255)


def lines_and_words(count: int, rng: np.random.Generator) -> tuple[list[str], list[str], list[list[str]]]:
    """Some lines of the help, of three to six words in small letters, all of its words, and its other lines."""
    texts = [
        [word.lower() for word in line.split() if word.isalpha() and word.isascii()]
        for topic in read_topics()
        for line in topic.splitlines()
    ]
    words = sorted({word for text in texts for word in text})
    long = [text for text in texts if len(text) >= 3]
    chosen = [long[i] for i in rng.choice(len(long), count, replace=False)]
    others = [text for text in texts if text and text not in chosen]
    return [" ".join(text[:6]) for text in chosen], words, others


def pairs_of_words(lines: list[list[str]], words: list[str]) -> str:
    """An ARPA file of pairs of words: half of each count is left to words that were not seen there."""
    bounded = [["<s>", *line, "</s>"] for line in lines]
    pairs = Counter(pair for line in bounded for pair in pairwise(line))
    behind, before = Counter(b for _, b in pairs), Counter(a for a, _ in pairs)
    often = Counter(word for line in bounded for word in line[:-1])
    left = {word: 0.5 * count / often[word] for word, count in before.items()}
    rest = 0.5 * len(behind) / len(pairs) / (len(words) + 1)  # for each word, and the unknown one
    ones = {word: (behind[word] - 0.5) / len(pairs) + rest if word in behind else rest for word in [*words, "</s>"]}
    text = [
        "\\data\\",
        f"ngram 1={len(ones) + 2}",
        f"ngram 2={len(pairs)}",
        "",
        "\\1-grams:",
        f"{math.log10(rest)} <unk>",
    ]
    text += [f"-99 <s> {math.log10(left['<s>'])}"]
    text += [f"{math.log10(p)} {word} {math.log10(left.get(word, 1))}" for word, p in ones.items()]
    text += ["", "\\2-grams:"]
    text += [f"{math.log10((n - 0.5) / often[a] + left[a] * ones[b])} {a} {b}" for (a, b), n in pairs.items()]
    return "\n".join([*text, "", "\\end\\", ""])


def model_of(reader: Reader, lines: list[list[str]], words: list[str]) -> sf.ctc.WordModel:
    """A model of pairs of words, as a search takes it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pairs.arpa"
        path.write_text(pairs_of_words(lines, words))
        return sf.ctc.WordModel(sf.NGrams.read(path), reader.letters, alpha=0.4, beta=1.0)


def errors(reader: Reader, read: list[str], wanted: list[str]) -> tuple[float, float, float]:
    """Return how many letters, words and lines of a hundred are wrong."""
    mine, theirs = (sf.convert(list(map(reader.array, texts)), sf.Ragged) for texts in (read, wanted))
    distances = np.asarray(sf.levenshtein(mine, theirs))
    numbers: dict[str, int] = {}
    lines = [
        [np.array([numbers.setdefault(word, len(numbers)) for word in text.split()], np.int64) for text in texts]
        for texts in (read, wanted)
    ]
    words = 100 * np.asarray(sf.levenshtein(*lines)).sum() / sum(map(len, lines[1]))
    return 100 * distances.sum() / theirs.rows, words, 100 * float((distances > 0).mean())


def read_all(reader: Reader, x: sf.Ragged, words: sf.Trie, lm: sf.ctc.WordModel) -> dict[str, tuple[list[str], float]]:
    """The lines by each way, and how many milliseconds that took."""

    def best(found: Any) -> list[list[int]]:
        return [hypotheses[0] if hypotheses else [] for hypotheses in found.tokens.to_nested()]

    ways: dict[str, Callable[[], list[list[int]]]] = {
        "best path": lambda: sf.ctc_greedy(x, blank=BLANK).tokens.to_nested(),
        "best label": lambda: best(sf.ctc_beam_search(x, blank=BLANK, beam_size=20, token_beam=30)),
        "of words": lambda: best(sf.ctc_beam_search(x, blank=BLANK, beam_size=100, token_beam=30, lexicon=words)),
        "by pairs": lambda: best(sf.ctc_beam_search(x, blank=BLANK, beam_size=100, token_beam=30, lm=lm)),
    }
    found = {}
    for name, way in ways.items():
        way()  # loads what there is to load, and makes of the words what the search needs
        begun = perf_counter()
        tokens = way()
        found[name] = [reader.text(line) for line in tokens], 1000 * (perf_counter() - begun)
    return found


def main(arguments: list[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description="Read lines of print by a model of PaddleOCR.")
    parser.add_argument("-n", "--lines", type=int, default=40)
    parser.add_argument("--noise", type=float, default=45.0, help="standard deviation, of gray from 0 to 255")
    asked = parser.parse_args(arguments)
    rng = np.random.default_rng(0)
    reader = Reader()
    wanted, known, others = lines_and_words(asked.lines, rng)
    x = sf.convert([reader.frames(draw(text, asked.noise, rng)) for text in wanted], sf.Ragged)
    words = sf.Trie([reader.array(word + " ") for word in known])
    lm = model_of(reader, others, known)
    print(f"{len(x)} lines, {x.rows:,} frames of {len(reader.letters):,} letters, {len(known):,} words")
    found, wrong = read_all(reader, x, words, lm), {}
    for name, (lines, took) in found.items():
        letters, some, whole = errors(reader, lines, wanted)
        wrong[name] = letters
        shares = f"{letters:4.1f} % of the letters wrong, {some:4.1f} % of the words, {whole:3.0f} % of the lines"
        print(f"{name:10}  {shares}; {took:.1f} ms")
    for i, text in enumerate(wanted[:4]):
        print(f"\n{'':10}  {text}")
        for name, (lines, _) in found.items():
            if lines[i] != text:
                print(f"{name:10}  {lines[i]}")
    return wrong


if __name__ == "__main__":
    try:
        main()
    except NotInstalled as error:
        sys.exit(str(error))
