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

CASES = Path(__file__).parent / "cases"
RECORDED = ("beam.json", "beam_fairseq.json", "beam_t5x.json")
RULES = ("hf", "ct2")  # of libraries that tests can ask
ENGINES = ("fairseq", "gnmt")  # of code that only `beam_engines` asks
# Where the scores of two candidates differ by less, float32 arithmetic of another kind may change their order.
CLOSE = 2e-5
WIDE = 100  # tokens; with so many, a table of what follows two of them were too large


@dataclass(frozen=True)
class Case:
    """A table, by what it is drawn from, the prompts (one per source) and the settings of the search."""

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
    if rule in ENGINES:
        return draw_of_engine(rule, seed)
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


def draw_of_engine(rule, seed):
    """One for code that knows one end, and has the same start for all sources; T5X's start is 0."""
    rng = np.random.default_rng([*rule.encode(), seed])
    fairseq = rule == "fairseq"
    beam_size, max_new_tokens = int(rng.integers(2, 7)), int(rng.choice([1, 2, 3, *range(4, 13)]))
    vocabulary = 2 * beam_size + int(rng.integers(1, 10))
    end, start = rng.choice(np.arange(1, vocabulary), 2, replace=False).tolist()
    prompts = [(int(first), start if fairseq else 0) for first in rng.integers(0, 4, rng.integers(1, 5))]
    return Case(
        rule,
        seed,
        vocabulary,
        tuple(prompts),
        (end,),
        spread=float(rng.choice([2, 4, 6, 10])),
        end_bonus=float(rng.choice([-1, 0, 1, 2, 3])),
        holes=0.0,
        beam_size=beam_size,
        n_best=int(rng.integers(1, beam_size + 1)),
        max_new_tokens=max_new_tokens,
        min_new_tokens=min(int(rng.choice([0, 0, 1, 2, 4])), max_new_tokens - 1) if fairseq else 0,
        length_penalty=float(rng.choice([-1, 0, 0.6, 1, 2] if fairseq else [0, 0.6, 1, 2])),
        early_stopping=False,
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
    if case.rule != "ct2":
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
        search_one = SEARCHES[case.rule]
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


def search_fairseq(case, logits, margin):
    k, a, (end,) = case.beam_size, case.length_penalty, case.ends
    live, finished, enough = [(0.0, [])], [], True
    for g in range(1, case.max_new_tokens + 1):
        last = g == case.max_new_tokens
        best = candidates(case, logits, live, 2 * k, margin)
        if last:  # where only the end is left
            best = [(s + log_probabilities(case, logits, tokens)[end], [*tokens, end]) for s, tokens in live]
            best.sort(key=lambda item: -item[0])
        finished += [(score / g**a, tokens) for score, tokens in best[:k] if tokens[-1] == end]
        live = [item for item in best if item[1][-1] != end][:k]
        enough &= last or (len(best) == 2 * k and len(live) == k)
        if len(finished) >= k:
            break
    margin.note([score for score, _ in finished])
    return sorted(finished[:k], key=lambda item: -item[0]), enough


def search_gnmt(case, logits, margin):
    k, a, (end,) = case.beam_size, case.length_penalty, case.ends
    live, pool, enough = [(0.0, [])], [], True
    for g in range(1, case.max_new_tokens + 1):
        best = candidates(case, logits, live, 2 * k, margin)
        pool += [(score / ((5 + g) / 6) ** a, tokens) for score, tokens in best if tokens[-1] == end]
        margin.note([score for score, _ in pool])
        pool = sorted(pool, key=lambda item: -item[0])[:k]
        live = [item for item in best if item[1][-1] != end][:k]
        enough &= len(best) == 2 * k and len(live) == k
    return pool, enough and len(pool) >= case.n_best


SEARCHES = {"hf": search_hf, "ct2": search_ct2, "fairseq": search_fairseq, "gnmt": search_gnmt}


# --- recorded answers ------------------------------------------------------------------------------------------------


def record(rule, seeds, ask, wide=False):
    """Cases that a peer decides, with its answers. It must agree with the rule as written above."""
    for seed in seeds:
        case = draw(rule, seed, wide)
        wanted, margin, enough = expected(case)
        if not enough or margin < CLOSE:
            continue
        answer = [[(tokens, score) for tokens, score, *_ in source] for source in ask(case)]
        same(case, wanted, answer)
        rounded = [[[tokens, float(f"{score:.8g}")] for tokens, score in source] for source in answer]
        yield {"case": to_json(case), "checksum": checksum(case), "answer": rounded}


def same(case, mine, theirs):
    """The same hypotheses in the same order."""
    for one, other in zip(mine, theirs, strict=True):
        got = [printed(case, tokens) for tokens, *_ in one]
        assert got == [tokens for tokens, *_ in other], (case, one, other)
        scores = [score for _, score, *_ in one], [score for _, score, *_ in other]
        np.testing.assert_allclose(*scores, rtol=1e-5, atol=1e-5, err_msg=str(case))


def numbers(text):
    """Ranges and single numbers, as in 0-250,3145."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def written(provenance, cases):
    """The text of a file of cases, one a line."""
    lines = ",\n".join(map(json.dumps, cases))
    return f'{{\n"provenance": {json.dumps(provenance)},\n"cases": [\n{lines}\n]\n}}'


def recorded():
    """The cases on file: (case, checksum of its table, hypotheses of every source)."""
    for name in RECORDED:
        for item in json.loads((CASES / name).read_text(encoding="utf-8"))["cases"]:
            yield from_json(item["case"]), item["checksum"], item["answer"]
