"""The options of beam search, once: what they are called, what they are if not given, and what is wrong with them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar

import numpy as np

from .. import hints
from ..arrays import Array, has_items, is_array, to_host
from ..converters.layouts import check_at_least
from ..errors import COUNTS, EMPTY, KIND, OPTION, RANGE, ROOM, TURN
from ..formats import LoD, Ragged, is_own
from ..formats.structure import flag, integers, whole
from .coverage import Coverage
from .names import HINTS
from .prompts import last_tokens, prompts_of
from .protocol import Constraint
from .result import BeamState
from .rules import Prune, Rule, number, rule_of
from .sampling import Sample
from .sources import Sources
from .tokens import ends_of

_MOST = (1 << 31) - 1  # tokens of a hypothesis, places of a beam

Whole: TypeAlias = int | Sequence[int] | Array
"""A whole number, or one for each source."""
Real: TypeAlias = float | Sequence[float] | Array
"""A number, or one for each source."""
RuleName: TypeAlias = Literal["hf", "ct2", "fairseq", "marian", "gnmt", "paddle", "greedy"]
"""The rules, for type checkers."""
OnMask: TypeAlias = Callable[[BeamState], Array]
OnScores: TypeAlias = Callable[[Array, BeamState], Array]
OnCandidates: TypeAlias = Callable[[LoD, LoD, BeamState], tuple[LoD, LoD]]
OnSelected: TypeAlias = Callable[[LoD, LoD, Array, BeamState], tuple[LoD | Array, LoD | Array, Array]]


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Options:
    """Keywords of `beam_search` and `BeamDecoder`; `beam_search` describes each.

    A new option is a field here and a line there.
    """

    start: Whole | None = None
    end: Whole | Ragged
    beam_size: Whole
    max_new_tokens: Whole
    prompt: object = None
    rule: RuleName = "hf"
    n_best: int = 1
    length_penalty: Real = 1.0
    coverage: float = 0.0
    early_stopping: bool | Literal["never"] = False
    patience: float = 1.0
    min_new_tokens: Whole = 0
    prune: Prune | None = None
    sampling: Sample | None = None
    constraints: Constraint | Sequence[Constraint] = ()
    shared: object = None
    on_mask: OnMask | Sequence[OnMask] | None = None
    on_scores: OnScores | Sequence[OnScores] | None = None
    on_candidates: OnCandidates | Sequence[OnCandidates] | None = None
    on_selected: OnSelected | Sequence[OnSelected] | None = None
    trace: bool = False

    def __post_init__(self) -> None:
        if self.start is None and self.prompt is None:
            raise KIND("start is missing: give the token before the first one, or a prompt for each source")
        if self.prune is not None and not isinstance(self.prune, Prune):
            raise KIND(f"prune must be a Prune, not {type(self.prune).__name__}")
        if self.sampling is not None and not isinstance(self.sampling, Sample):
            raise KIND(f"sampling must be a Sample or Stochastic, not {type(self.sampling).__name__}")
        flag(self.trace, "trace")

    def made_rule(self) -> Rule:
        """The rule; ConversionError where there is none of this name."""
        return self.made_coverage().waiting(rule_of(self.rule, self.early_stopping, self.patience))

    def made_coverage(self) -> Coverage:
        """The coverage penalty; TypeError and ConversionError where its weight cannot be one."""
        return Coverage(self.coverage)

    def made_constraints(self) -> list[Constraint]:
        """The constraints as a list."""
        found = [self.constraints] if isinstance(self.constraints, Constraint) else self.constraints
        if not isinstance(found, (list, tuple)) or not all(isinstance(one, Constraint) for one in found):
            raise KIND("constraints must be a list of constraints such as BannedTokens")
        return list(found)


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class More:
    """Keywords of `BeamDecoder.add`: options that sources may have of their own; None: as the others."""

    start: Whole | None = None
    prompt: object = None
    end: Whole | Ragged | None = None
    beam_size: Whole | None = None
    max_new_tokens: Whole | None = None
    min_new_tokens: Whole | None = None
    length_penalty: Real | None = None
    sampling: Sample | None = None
    constraints: Constraint | Sequence[Constraint] | None = None
    shared: object = None

    def make_options(self, others: Options) -> Options:
        """The options of these sources; StructureError where those of the others are not for these too."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("end", "beam_size", "max_new_tokens", "min_new_tokens", "length_penalty", "sampling"):
            if given[name] is None and _each(name, getattr(others, name)):
                raise TURN(f"{name} is given for each source; give it for those that are added too")
        start = None if has_items(others.start) else others.start
        said = {name: value for name, value in given.items() if value is not None}
        return replace(others, **{"start": start, "prompt": None, "shared": None} | said)


def _each(name: str, value: object) -> bool:
    """Tell whether this is an option with one value for each source."""
    if name == "end":
        return is_own(value)
    return value.each if isinstance(value, Sample) else has_items(value)


def per_source(options: Options, n: int | None) -> Sources:
    """Spread the options over `n` sources; where that is None, the start tokens say how many there are."""
    prompts = None if options.prompt is None else prompts_of(options.prompt)
    start = _starts(options, prompts, n)
    n = start.size
    width = _whole(options.beam_size, n, "beam_size", 1)
    limit = _whole(options.max_new_tokens, n, "max_new_tokens", 1)
    least = _whole(options.min_new_tokens, n, "min_new_tokens", 0)
    places = width.max(initial=1) * options.made_rule().patience
    if check_at_least(options.n_best, "n_best", 1) > places and n:
        raise ROOM(f"n_best is {options.n_best}, but the beams have {places:g} places at most")
    penalty = _penalties(options.length_penalty, n)
    return Sources(start, width, limit, least, penalty, ends_of(options.end, n), prompts)


def _starts(options: Options, prompts: Ragged[Array] | None, n: int | None) -> Array:
    """The start token of each source."""
    if prompts is None:
        assert options.start is not None
        return _given_starts(options.start, n)
    if n is not None and len(prompts) != n:
        raise COUNTS(f"there are {len(prompts)} prompts, but the memories are for {n} sources")
    last = last_tokens(prompts)
    if options.start is not None and not np.array_equal(_given_starts(options.start, len(prompts)), last):
        raise TURN("start is the last token of each prompt; with prompts it need not be given")
    return last


def _given_starts(start: Whole, n: int | None) -> Array:
    if has_items(start):
        found = integers(start, "start")
        if n is not None and found.size != n:
            raise COUNTS(f"start has {found.size} tokens, but the memories are for {n} sources")
        return found
    token = int(integers([whole(to_host(start).item() if is_array(start) else start, "start")], "start")[0])
    if n is None:
        raise EMPTY("how many sources are there?  Without a memory give start as an array, one token per source")
    return np.full(n, token, np.int64)


def _whole(value: Whole, n: int, what: str, least: int) -> Array:
    found = integers(value if has_items(value) else [value], what)
    if has_items(value) and found.size != n:
        raise COUNTS(f"{what} has {found.size} numbers, but there are {n} sources")
    if found.size:
        check_at_least(int(found.min()), what, least)
        if found.max() > _MOST:
            raise RANGE(f"{what} must be at most {_MOST}, not {found.max()}")
    return found if has_items(value) else np.repeat(found, n)


def _penalties(value: Real, n: int) -> Array:
    if has_items(value):
        values: Any = to_host(value).tolist() if is_array(value) else value
        found = np.array([number(v, "length_penalty") for v in values], np.float64)
        if found.size != n:
            raise COUNTS(f"length_penalty has {found.size} numbers, but there are {n} sources")
    else:
        found = np.full(n, number(value, "length_penalty"))
    if not np.isfinite(found).all():
        raise RANGE("length_penalty must be finite")
    return found


P = ParamSpec("P")
Made = TypeVar("Made")
A = TypeVar("A")
B = TypeVar("B")
R = TypeVar("R")


def with_options(
    made: Callable[P, Made],
) -> Callable[[Callable[[A, B, Made], R]], Callable[Concatenate[A, B, P], R]]:
    """Let a function, whose last argument is an `Options` or the like, take the fields of those as keywords.

    They are in its signature, and type checkers know them.  An unknown one is refused, with a TypeError that says what
    it is called here.
    """
    fields = inspect.signature(made).parameters
    required = {name for name, field in fields.items() if field.default is field.empty}
    keywords = ", ".join(fields)

    def decorate(function: Callable[[A, B, Made], R]) -> Callable[Concatenate[A, B, P], R]:
        signature = inspect.signature(function)
        *first, _ = signature.parameters.values()
        names = [one.name for one in first]
        with_keywords = signature.replace(parameters=[*first, *fields.values()])
        optional = set(fields)
        known = {*names, *fields}
        call: Any = function
        make: Any = made  # whose keywords are checked here and by type checkers, not in between

        @functools.wraps(function)
        def taking_keywords(*args: Any, **options: Any) -> Any:
            for name in options:
                if name not in known:
                    told = f"{name} {HINTS[name]}" if name in HINTS else f"there is no option {name}"
                    hint = "" if name in HINTS else hints.suggest(name, optional)
                    raise OPTION(f"{told}; the options are: {keywords}{hint}")
            given = (*args, *[options.pop(name) for name in names[len(args) :] if name in options])
            if len(given) != len(names) or not required <= options.keys() <= optional:
                inspect.signature(taking_keywords).bind(*given, **options)  # which says what is wrong
            return call(*given, make(**options))

        described: Any = taking_keywords
        described.__signature__ = with_keywords
        found: Callable[Concatenate[A, B, P], R] = described
        return found

    return decorate
