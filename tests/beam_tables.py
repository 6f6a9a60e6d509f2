"""Models that are tables of random numbers: what beam search and its peers both decode, without a network.

The logits of a step are one row of a table, found by the first token of the prompt, the number of tokens generated so
far and the last two tokens. All numbers are uniform float32 draws of a seeded generator, so that a table needs no room
in a file and is the same on every machine.
"""

import json
import math
import zlib
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

import seqformats as sf

RECORDED = Path(__file__).parent / "cases" / "beam.json"
RULES = ("hf", "ct2")
# Where the scores of two candidates differ by less, float32 arithmetic of another kind may change their order.
CLOSE = 2e-5
WIDE = 100  # tokens; with so many, a table of what follows two of them were too large


@dataclass(frozen=True)
class Case:
    """A table, by what it is drawn from, the prompts (one a source) and the settings of the search."""

    rule: str
    seed: int
    vocabulary: int
    prompts: tuple[tuple[int, ...], ...]
    ends: tuple[int, ...]
    spread: float
    end_bonus: float
    holes: float
    beam_size: int
    n_best: int
    max_new_tokens: int
    min_new_tokens: int
    length_penalty: float
    early_stopping: bool | str


def draw(rule, seed, wide=False):
    """A random case; a wide one has hundreds of tokens, up to a score of places in the beam, and few steps."""
    rng = np.random.default_rng([RULES.index(rule), seed])
    hf = rule == "hf"
    beam_size, ends = int(rng.integers(2, 6)), int(rng.integers(1, 3))
    # With fewer tokens the peers fill their beams with candidates that have no probability at all.
    least = beam_size + ends + 1 if hf else 2 * beam_size
    vocabulary = least + int(rng.integers(0, 9))
    width = int(rng.integers(1, 4)) if hf else 1
    prompts = rng.integers(0, vocabulary, (int(rng.integers(1, 5)), width)).tolist()
    max_new_tokens = int(rng.choice([1, 2, 3, *range(4, 13), *range(4, 13)]))
    if wide:
        beam_size, vocabulary = int(rng.integers(2, 21)), int(rng.integers(WIDE, 600))
        max_new_tokens = min(max_new_tokens, 5)
    return Case(
        rule,
        seed,
        vocabulary,
        tuple(map(tuple, prompts)),
        tuple(rng.choice(vocabulary, ends, replace=False).tolist()),
        spread=float(rng.choice([2, 4, 6, 10])),
        end_bonus=float(rng.choice([-1, 0, 1, 2, 3])),
        holes=float(rng.choice([0, 0, 0, 0.1, 0.3])) if hf else 0.0,
        beam_size=beam_size,
        n_best=int(rng.integers(1, beam_size + 1)),
        max_new_tokens=max_new_tokens,
        min_new_tokens=min(int(rng.choice([0, 0, 0, 1, 2, 4])), max_new_tokens),
        length_penalty=float(rng.choice([-1, 0, 0.6, 1, 2])),
        early_stopping=(False, True, "never")[int(rng.integers(0, 3))] if hf else False,
    )


def from_json(data):
    """A case as it was written."""
    data = dict(data)
    return Case(prompts=tuple(map(tuple, data.pop("prompts"))), ends=tuple(data.pop("ends")), **data)


def to_json(case):
    return asdict(case)


def parts(case):
    """The numbers of a table. CTranslate2's adds what a token and what a step brings, the other gives them all."""
    rng = np.random.default_rng(case.seed)
    steps, words = case.max_new_tokens, case.vocabulary

    def numbers(*shape):
        drawn = rng.random((*shape, words), dtype=np.float32)
        values = drawn * np.float32(case.spread)
        values[..., list(case.ends)] += np.float32(case.end_bonus)
        holes = rng.random(values.shape, dtype=np.float32) < case.holes
        holes[..., 0] = False  # something is possible everywhere
        values[holes] = -np.inf
        return values

    if case.rule == "ct2":
        return numbers(words), numbers(steps)
    return (numbers(4, steps, words, words) if words < WIDE else numbers(1, steps, 1, words),)


def table(case):
    """The logits by first token (modulo the table's length), tokens generated, last token but one, last token."""
    numbers = parts(case)
    if case.rule == "hf":
        return numbers[0]
    of_token, of_step = numbers
    return (of_token[None, :, :] + of_step[:, None, :])[None, :, None, :, :]


def checksum(case):
    """Of the bits of a table, so that recorded answers are never held against other numbers."""
    return zlib.crc32(table(case).tobytes())


def rows(logits, first, t, before, last):
    """The rows of a table, of tokens or of arrays of them."""
    return logits[first % len(logits), t, before % logits.shape[2], last]


def prompt_tokens(case):
    """The first, the last but one and the last token of every prompt."""
    tokens = np.array(case.prompts, np.int64)
    return tokens[:, 0], tokens[:, max(tokens.shape[1] - 2, 0)], tokens[:, -1]


# --- the library's answer --------------------------------------------------------------------------------------------


def settings(case):
    """The settings of a case as `beam_search` names them."""
    names = ("rule", "beam_size", "n_best", "max_new_tokens", "min_new_tokens", "length_penalty", "early_stopping")
    return {name: getattr(case, name) for name in names}


def search(case, **more):
    """The case through `beam_search`. The last token but one is a memory, which follows the beams by itself."""
    numbers = table(case)
    first, before, last = prompt_tokens(case)

    def step(state):
        return rows(numbers, state.shared[state.source], state.t, state.memory, state.tokens), state.tokens

    return sf.beam_search(step, before, shared=first, start=last, end=list(case.ends), **settings(case), **more)


def hypotheses(result):
    """The (tokens, score) of every hypothesis, a list for each source."""
    sources, offsets = (level.tolist() for level in result.tokens.lod)
    tokens, scores = np.asarray(result.tokens.data).tolist(), np.asarray(result.scores).tolist()
    found = [(tokens[a:b], score) for (a, b), score in zip(pairwise(offsets), scores, strict=True)]
    return [found[a:b] for a, b in pairwise(sources)]


def printed(case, tokens):
    """As the peer gives them: CTranslate2 leaves the end token out."""
    ended = case.rule == "ct2" and tokens and tokens[-1] in case.ends
    return tokens[:-1] if ended else tokens


# --- an independent answer, and how sure it is -----------------------------------------------------------------------


class Margin:
    """The least distance of two numbers that were compared."""

    def __init__(self):
        self.least = math.inf

    def note(self, values):
        """Numbers of which the order matters."""
        values = sorted(v for v in values if v > -math.inf)
        for low, high in pairwise(values):
            self.least = min(self.least, (high - low) / max(1.0, abs(high)))


def expected(case, logits=None):
    """What the rule gives, one source at a time in float64: the hypotheses, the margin, and whether a peer agrees.

    logits(source, tokens) is the row that follows these tokens; a row of the case's table unless given. A peer need
    not agree where candidates were too few: its beams have a fixed width, and it fills them with candidates of no
    probability.
    """
    if logits is None:
        numbers = table(case)

        def logits(source, tokens):
            told = [*case.prompts[source], *tokens]
            before = told[max(len(told) - 2, 0)]
            return rows(numbers, told[0], len(tokens), before, told[-1])

    margin, answers, enough = Margin(), [], True
    for source in range(len(case.prompts)):
        search_one = search_hf if case.rule == "hf" else search_ct2
        found, filled = search_one(case, lambda tokens, source=source: logits(source, tokens), margin)
        answers.append([(tokens, score) for score, tokens in found[: case.n_best]])
        enough &= filled
    return answers, margin.least, enough


def log_probabilities(case, logits, tokens):
    x = np.array(logits(tokens), np.float64)
    banned = list(case.ends) if len(tokens) < case.min_new_tokens else []
    if case.rule == "ct2":
        x[banned] = -np.inf  # before the probabilities are taken, so that they still sum to one
    x = x - x.max()
    x = x - np.log(np.exp(x).sum())
    x[banned] = -np.inf
    return x


def candidates(case, logits, live, count, margin):
    """The best next (score, tokens), best first."""
    found = []
    for score, tokens in live:
        gained = log_probabilities(case, logits, tokens)
        found += [(score + gained[token], [*tokens, token]) for token in np.flatnonzero(gained > -np.inf).tolist()]
    found.sort(key=lambda item: -item[0])
    margin.note([score for score, _ in found[: count + 1]])
    return found[:count]


def search_hf(case, logits, margin):
    k, a, end = case.beam_size, case.length_penalty, set(case.ends)
    live, pool, enough = [(0.0, [])], [], True
    for g in range(1, case.max_new_tokens + 1):
        last = g == case.max_new_tokens
        best = candidates(case, logits, live, max(2, 1 + len(end)) * k, margin)
        over = [last or tokens[-1] in end for _, tokens in best]
        live = [item for item, is_over in zip(best, over, strict=True) if not is_over][:k]
        enough &= len(best) >= k and (last or len(live) == k)
        new = [(score / g**a, tokens) for (score, tokens), is_over in zip(best[:k], over[:k], strict=True) if is_over]
        margin.note([score for score, _ in pool + new])
        pool = sorted(pool + new, key=lambda item: -item[0])[:k]
        if not live:
            break
        longest = case.max_new_tokens if case.early_stopping == "never" and a > 0 else g
        reachable = live[0][0] / longest**a
        if len(pool) == k:
            margin.note([reachable, pool[-1][0]])
            if case.early_stopping is True or reachable <= pool[-1][0]:
                break
    return pool, enough


def search_ct2(case, logits, margin):
    k, a, end = case.beam_size, case.length_penalty, set(case.ends)
    live, finished, enough, top = [(0.0, [])], [], True, False
    for g in range(1, case.max_new_tokens + 1):
        last = g == case.max_new_tokens
        best = candidates(case, logits, live, 2 * k, margin)
        spare = [item for item in best[k:] if item[1][-1] not in end]
        live = []
        for rank, (score, tokens) in enumerate(best[:k]):
            if last or tokens[-1] in end:
                top |= rank == 0
                finished.append((score / g**a, tokens))
                if spare:
                    live.append(spare.pop(0))
                enough &= last or len(live) > rank
            else:
                live.append((score, tokens))
        enough &= len(best) == 2 * k
        if (top and len(finished) >= case.n_best) if a == 0 else len(finished) >= k:
            break
    margin.note([score for score, _ in finished])
    return sorted(finished, key=lambda item: -item[0]), enough


# --- recorded answers ------------------------------------------------------------------------------------------------


def recorded():
    """The cases on file: (case, checksum of its table, hypotheses of every source)."""
    for item in json.loads(RECORDED.read_text(encoding="utf-8"))["cases"]:
        yield from_json(item["case"]), item["checksum"], item["answer"]
