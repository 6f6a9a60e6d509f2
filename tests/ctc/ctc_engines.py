"""CTC prefix beam search by flashlight-text, pyctcdecode and fast-ctc-decode: it records answers for the tests.

A script, where these are installed: ``python tests/ctc/ctc_engines.py > tests/cases/ctc.json``.  With beams for all
labels all three find the most likely one, and the first two its score, once hypotheses of one label are added up, which
they tell apart by the last frame.  With narrow beams only fast-ctc-decode has the beams of the definition.
"""

import importlib.metadata
import json
import math
import zlib
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import ctc_oracle
import numpy as np

CASES = Path(__file__).parents[1] / "cases" / "ctc.json"
SEEDS = range(120)
ALL = 2000  # beams, more than there are labels
CLOSE = 1e-3  # where scores differ by less, arithmetic of another kind may change their order


@dataclass(frozen=True)
class Case:
    """Frames, by what they are drawn from, and the beams of the search; the blank is 0."""

    seed: int
    lengths: tuple[int, ...]
    width: int
    peak: float
    beam_size: int


def draw(seed):
    """Frames with few labels and beams for all of them; or more of both, and narrow beams."""
    rng = np.random.default_rng(seed)
    if seed % 2:
        lengths, width, beam_size = rng.integers(1, 7, rng.integers(1, 5)), int(rng.integers(2, 5)), ALL
    else:
        lengths, width = rng.integers(5, 40, rng.integers(1, 4)), int(rng.integers(4, 12))
        beam_size = int(rng.integers(2, 13))
    return Case(seed, tuple(lengths.tolist()), width, float(rng.choice([0.5, 1.5, 3.0])), beam_size)


def frames_of(case):
    """Log-probabilities ``(frames, width)``."""
    x = np.random.default_rng([case.seed, 1]).random((sum(case.lengths), case.width)) * 2 * case.peak
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def by_source(case):
    data, ends = frames_of(case), np.append(0, np.cumsum(case.lengths)).tolist()
    return [data[a:b] for a, b in pairwise(ends)]


def checksum(case):
    """Of the numbers as far as they are alike everywhere."""
    return zlib.crc32(np.round(frames_of(case), 9).tobytes())


def added_up(found):
    """The likeliest label of hypotheses, and its score."""
    totals = {}
    for label, score in found:
        totals[label] = ctc_oracle.log_add(totals.get(label, -math.inf), score)
    best = max(totals, key=totals.get)
    return list(best), totals[best]


def by_flashlight(frames):
    from flashlight.lib.text.decoder import CriterionType, LexiconFreeDecoder, LexiconFreeDecoderOptions, ZeroLM

    x = np.ascontiguousarray(frames, np.float32)
    options = LexiconFreeDecoderOptions(ALL, x.shape[1], 1e9, 0.0, 0.0, True, CriterionType.CTC)
    decoder = LexiconFreeDecoder(options, ZeroLM(), x.shape[1] + 7, 0, [])
    found = decoder.decode(x.ctypes.data, *x.shape)
    # a token for each frame, between two that stand for the ends
    return added_up((ctc_oracle.label_of(one.tokens[1 : 1 + len(x)], 0)[0], one.score) for one in found)


def by_pyctcdecode(frames):
    import pyctcdecode

    letters = [chr(ord("a") + i) for i in range(frames.shape[1] - 1)]
    decoder = pyctcdecode.build_ctcdecoder(["", *letters])
    found = decoder.decode_beams(frames, beam_width=ALL, beam_prune_logp=-1e9, token_min_logp=-1e9)
    return added_up((tuple(letters.index(c) + 1 for c in one[0]), one[3]) for one in found)


def by_fast_ctc_decode(frames, beam_size):
    import fast_ctc_decode

    alphabet = "_" + "".join(chr(ord("a") + i) for i in range(frames.shape[1] - 1))
    text, _ = fast_ctc_decode.beam_search(np.exp(frames).astype(np.float32), alphabet, beam_size, 0.0)
    return [alphabet.index(c) for c in text], None


def answers(case):
    """What each has found of every source: its name, the label, and the score where it is known."""
    for frames in by_source(case):
        found = [("fast-ctc-decode", *by_fast_ctc_decode(frames, case.beam_size))]
        if case.beam_size == ALL:
            found += [("flashlight-text", *by_flashlight(frames)), ("pyctcdecode", *by_pyctcdecode(frames))]
        yield found


def written():
    """The text of the file: cases in which the likeliest label is clearly that."""
    lines = []
    for case in map(draw, SEEDS):
        clear = True
        for frames in by_source(case):
            found = ctc_oracle.prefix_search(frames.tolist(), 0, case.beam_size, n_best=2)
            clear &= len(found) < 2 or found[0][2] - found[1][2] > CLOSE
        if clear:
            rounded = [[(a, b, c and float(f"{c:.7g}")) for a, b, c in found] for found in answers(case)]
            lines.append(json.dumps({"case": asdict(case), "checksum": checksum(case), "answers": rounded}))
    known = ("flashlight-text", "pyctcdecode", "fast-ctc-decode")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in known)
    cases = ",\n".join(lines)
    return f'{{\n"provenance": "{versions}; by tests/ctc/ctc_engines.py",\n"cases": [\n{cases}\n]\n}}'


def recorded():
    """The cases on file: (case, checksum of its frames, answers for every source)."""
    for item in json.loads(CASES.read_text(encoding="utf-8"))["cases"]:
        data = dict(item["case"])
        yield Case(lengths=tuple(data.pop("lengths")), **data), item["checksum"], item["answers"]


if __name__ == "__main__":
    print(written())
