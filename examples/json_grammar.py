"""Beams of which every hypothesis is JSON of a schema: the masks of a grammar in a beam search.

    python examples/json_grammar.py

The grammar is kept by xgrammar (`pip install xgrammar`): a matcher a hypothesis, which fills a bit for each token.  The
model is a table of random numbers, so that only the grammar makes sense of what it says.
"""

from string import ascii_lowercase
from typing import Any

import numpy as np

import seqformats as sf

END = 0
VOCABULARY = [
    "</s>",
    *'{}[]":, 0123456789',
    *ascii_lowercase,
    '"name"',
    '"sizes"',
    ": ",
    "true",
    "false",
    "], ",
    '", "',
]
SCHEMA = """{
    "type": "object",
    "properties": {
        "name": {"enum": ["bead", "cafe", "face"]},
        "sizes": {"type": "array", "items": {"enum": [1, 20, 300]}, "maxItems": 3}
    },
    "required": ["name", "sizes"]
}"""


class Grammar:
    """What a grammar allows behind each hypothesis; the option `on_mask` of a search."""

    def __init__(self, compiled: Any, rows: int, width: int) -> None:
        import xgrammar

        self.matchers = [xgrammar.GrammarMatcher(compiled) for _ in range(rows)]
        self.words = -(-width // 32)

    def __call__(self, state: sf.BeamState) -> np.ndarray:
        """A bit for each row and token, 32 in a word."""
        mask = np.zeros((len(self.matchers), self.words), np.int32)
        for row, matcher in enumerate(self.matchers):
            matcher.fill_next_token_bitmask(mask, row)
        return mask

    def follow(self, parents: np.ndarray, tokens: np.ndarray) -> None:
        """Row r is what row ``parents[r]`` was, with ``tokens[r]`` behind it."""
        self.matchers = [self.matchers[parent].fork() for parent in parents.tolist()]
        for matcher, token in zip(self.matchers, tokens.tolist(), strict=True):
            matcher.accept_token(token)


def compile_schema(schema: str) -> Any:
    """A schema as xgrammar has it, for these tokens."""
    import xgrammar

    info = xgrammar.TokenizerInfo(VOCABULARY, vocab_type=xgrammar.VocabType.RAW, stop_token_ids=[END])
    return xgrammar.GrammarCompiler(info, max_threads=1).compile_json_schema(schema, any_whitespace=False)


def random_model(seed: int = 0) -> Any:
    """A step that gives random scores, which depend on the last token and on how many came before."""
    table = np.random.default_rng(seed).normal(0, 2, (64, len(VOCABULARY))).astype(np.float32)

    def step(state: sf.BeamState) -> tuple[np.ndarray, None]:
        return table[(state.tokens * 7 + state.t) % 64], None

    return step


def generate(step: Any, schema: str, sources: int, beam_size: int = 4, max_new_tokens: int = 60) -> sf.BeamResult:
    """The best hypotheses of each source, all of them JSON if they have ended."""
    return sf.beam_search(
        step,
        None,
        start=np.arange(1, sources + 1),
        end=END,
        beam_size=beam_size,
        n_best=beam_size,
        max_new_tokens=max_new_tokens,
        on_mask=Grammar(compile_schema(schema), sources, len(VOCABULARY)),
    )


def text_of(tokens: list[int]) -> str:
    return "".join(VOCABULARY[token] for token in tokens if token != END)


def main() -> None:
    found = generate(random_model(), SCHEMA, sources=2)
    scores = iter(found.scores.tolist())
    for source, hypotheses in enumerate(found.tokens.to_nested()):
        print(f"source {source}:")
        for tokens in hypotheses:
            print(f"  {next(scores):7.2f}  {text_of(tokens)}{'' if END in tokens else ' ...'}")


if __name__ == "__main__":
    main()
