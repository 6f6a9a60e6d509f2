"""N-gram models as dictionaries, and what models of words and tokens say of labels, in plain Python."""

import math
import string

import numpy as np

LN10 = math.log(10)


class BackOff:
    """N-grams ``{words: (log10 p, weight)}`` of each order, scored word by word as Katz has it."""

    def __init__(self, levels):
        self.levels = [{k: tuple(map(float, map(np.float32, v))) for k, v in level.items()} for level in levels]
        self.known = {words[0] for words in self.levels[0]}
        self.unknown = self.levels[0].get(("<unk>",), (-100.0, 0.0))

    def score(self, history, word):
        """Log10 p of a word behind all words so far."""
        word = word if word in self.known else "<unk>"
        words = tuple(one if one in self.known else "<unk>" for one in history)
        words = words[max(0, len(words) - len(self.levels) + 1) :]
        total = 0.0
        while words:
            if (*words, word) in self.levels[len(words)]:
                return total + self.levels[len(words)][*words, word][0]
            total += self.levels[len(words) - 1].get(words, self.unknown if words == ("<unk>",) else (0.0, 0.0))[1]
            words = words[1:]
        return total + self.levels[0].get((word,), self.unknown)[0]

    def arpa(self, separator="\t", newline="\n", head="", weights=True):
        """The file of the model."""
        lines = [head, "\\data\\", *(f"ngram {n}={len(level)}" for n, level in enumerate(self.levels, 1)), ""]
        for n, level in enumerate(self.levels, 1):
            lines.append(f"\\{n}-grams:")
            for words, (log, weight) in level.items():
                end = [f"{weight:.9g}"] if weights and n < len(self.levels) and weight else []
                lines.append(
                    separator.join(
                        [f"{log:.9g}", " ".join(words) if separator == "\t" else separator.join(words), *end]
                    )
                )
            lines.append("")
        return newline.join([*lines, "\\end\\", ""])


def random_model(rng, words, order, holes=0.0, unknown=True):
    """N-grams of random numbers; of those with longer ones some are missing."""
    names = ["<s>", "</s>", *words, *(["<unk>"] if unknown else [])]
    levels = []
    for n in range(1, order + 1):
        size = len(names) if n == 1 else int(rng.integers(1, 3 * len(names)))
        chosen = [(name,) for name in names] if n == 1 else [tuple(rng.choice(names, n)) for _ in range(size)]
        if n > 1 and not holes:
            chosen = [words for words in chosen if words[:-1] in levels[-1]]
        levels.append({words: (-rng.uniform(0, 3), round(rng.normal(-0.3, 0.3), 2)) for words in map(_plain, chosen)})
    return BackOff(levels)


def _plain(words):
    return tuple(map(str, words))


class Tokens:
    """Scores that a `ctc.TokenModel` gives to labels."""

    def __init__(self, model, names, alpha, beta, boundary, bonus=0.0):
        self.model, self.names, self.bonus = model, names, bonus
        self.factor, self.beta, self.boundary = alpha * LN10, beta, boundary
        self.start = ("<s>",) if boundary else ()

    def __call__(self, label):
        kept, history = 0.0, self.start
        for token in label:
            value = self.factor * self.model.score(history, self.names[token]) + self.beta
            kept = (kept + self.bonus) + value
            history = (*history, self.names[token])
        return kept, 0.0, self.factor * self.model.score(history, "</s>") if self.boundary else 0.0


class Words(Tokens):
    """Scores that a `ctc.WordModel` gives to labels."""

    def __init__(self, model, names, alpha, beta, unknown, boundary, hot=(), weight=0.0, bonus=0.0):
        super().__init__(model, names, alpha, beta, boundary, bonus)
        self.unknown, self.hot, self.weight = unknown, set(hot), weight
        self.words = {word for word in model.known if word != "<unk>"}
        pieces = any(name.startswith("▁") for name in names)
        space = " " if " " in names else "|"
        self.opens = [name.startswith("▁") if pieces else name == space for name in names]
        self.texts = ["" if name == space and not pieces else name.lstrip("▁") if pieces else name for name in names]

    def ended(self, history, part):
        log = self.model.score(history, part)
        if part not in self.words:
            log += self.unknown
        return self.factor * log + self.beta + (self.weight if part in self.hot else 0.0)

    def worth(self, part):
        if not part:
            return 0.0
        hot = [len(word) for word in self.hot if word.startswith(part)]
        if hot:
            return self.weight * len(part) / min(hot)
        if any(word.startswith(part) for word in self.words):
            return 0.0
        cost = self.factor * self.unknown
        return cost * len(part) / 6 if len(part) > 6 else cost

    def __call__(self, label):
        kept, history, part = 0.0, self.start, ""
        for token in label:
            value = 0.0
            if self.opens[token] and part:
                value = self.ended(history, part)
                history = (*history, part)
            part = ("" if self.opens[token] else part) + self.texts[token]
            kept = (kept + self.bonus) + value
        worth, end = self.worth(part), 0.0
        if part:
            end = self.ended(history, part)
            history = (*history, part)
        return kept, worth, end + (self.factor * self.model.score(history, "</s>") if self.boundary else 0.0)


LETTERS = string.ascii_lowercase
