"""Rules that tell the beam searches of different decoders apart: a table, read by one loop."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import hints
from ..arrays import Array, is_array, to_host
from ..converters.layouts import check_at_least
from ..errors import CHOICE, KIND, RANGE, TOGETHER, quote
from ..formats.structure import flag

POOL_BEST, POOL_FIRST, POOL_BEAM, POOL_ALL = range(4)  # see Rule.pool
NORM_NONE, NORM_LENGTH, NORM_GNMT = range(3)  # see Rule.norm
STOP_OPEN, STOP_FULL, STOP_NEVER, STOP_COUNT, STOP_TOP, STOP_BOUND, STOP_EMPTY = range(7)  # see Rule.stop


class Rule(NamedTuple):
    """Rule by which finished hypotheses are kept and scored, and a source is done; k is its beam size.

    Those from `first_only` to `stop` go to the kernel `advance_beams`, as `rows.Terms`.
    """

    candidates: int
    """How many candidates a source keeps, in beam sizes."""
    spares: bool
    """Does it keep more where it has more than one end, so that k are left whatever ends?"""
    first_only: bool
    """May only the first k candidates end a hypothesis?"""
    at_limit: bool
    """Is a hypothesis of the greatest length finished without an end?"""
    pool: int
    """Which finished ones are kept: the k best; the first k; those that stay in the beam beside the live; all."""
    norm: int
    """Divisor of a score: nothing (`NORM_NONE`), ``length ** penalty`` (`NORM_LENGTH`), or
    ``((5 + length) / 6) ** penalty`` (`NORM_GNMT`)."""
    shrinks: bool = False
    """Does every finished hypothesis take a place of the beam, and a candidate, away?"""
    stop: int = STOP_EMPTY
    """When a source is done, beside having no live hypothesis: when no live one, as long as it is, can be among the
    finished any more (`STOP_OPEN`); or as soon as those are k (`STOP_FULL`); when none can at its best length
    (`STOP_NEVER`); when k have finished (`STOP_COUNT`); the same, or without a length penalty when the best one has
    (`STOP_TOP`); when none can at the greatest length (`STOP_BOUND`); only then (`STOP_EMPTY`)."""
    forced_end: bool = False
    """Must the last token be an end?"""
    masks_first: bool = False
    """Do limits act on the scores before they become log-probabilities, so that these still add up to one?"""
    patience: float = 1.0
    """With how many finished hypotheses a source is done, in beam sizes, for `STOP_COUNT` and `STOP_TOP`."""
    greedy: bool = False
    """Does a hypothesis go on with its best token, by the scores as they are, whatever its own is?"""


RULES = {
    # transformers: GenerationMixin._beam_search
    "hf": Rule(2, True, first_only=True, at_limit=True, pool=POOL_BEST, norm=NORM_LENGTH, stop=STOP_OPEN),
    # CTranslate2: BeamSearch
    "ct2": Rule(
        2, False, first_only=True, at_limit=True, pool=POOL_ALL, norm=NORM_LENGTH, stop=STOP_TOP, masks_first=True
    ),
    # fairseq: SequenceGenerator
    "fairseq": Rule(
        2, False, first_only=True, at_limit=False, pool=POOL_FIRST, norm=NORM_LENGTH, stop=STOP_COUNT, forced_end=True
    ),
    # Marian: BeamSearch
    "marian": Rule(
        1, False, first_only=False, at_limit=True, pool=POOL_ALL, norm=NORM_LENGTH, shrinks=True, stop=STOP_COUNT
    ),
    # Wu et al. 2016, as tensor2tensor and T5X have it
    "gnmt": Rule(2, False, first_only=False, at_limit=False, pool=POOL_BEST, norm=NORM_GNMT, stop=STOP_BOUND),
    # PaddlePaddle: the operators beam_search and beam_search_decode
    "paddle": Rule(1, False, first_only=False, at_limit=True, pool=POOL_BEAM, norm=NORM_NONE),
    # transformers: generate(num_beams=1), which is no beam search
    "greedy": Rule(
        1, False, first_only=False, at_limit=True, pool=POOL_BEAM, norm=NORM_NONE, masks_first=True, greedy=True
    ),
}
_EARLY = {False: STOP_OPEN, True: STOP_FULL, "never": STOP_NEVER}


def rule_of(name: object, early_stopping: object, patience: object) -> Rule:
    """The rule of this name; `early_stopping` belongs to "hf", `patience` to "ct2"."""
    if not isinstance(name, str) or name not in RULES:
        raise CHOICE(f"there is no rule {quote(name)}; there are: {', '.join(RULES)}{hints.suggest(name, RULES)}")
    if isinstance(early_stopping, np.bool_):
        early_stopping = bool(early_stopping)
    if not isinstance(early_stopping, (bool, str)) or early_stopping not in _EARLY:
        raise CHOICE(f'early_stopping must be False, True or "never", not {quote(early_stopping)}')
    patient = number(patience, "patience")
    if not 0 < patient < math.inf:
        raise RANGE(f"patience must be above 0, and finite, not {quote(patience)}")
    if name != "ct2" and patient != 1:
        raise TOGETHER(f'patience belongs to the rule "ct2"; "{name}" stops in a way of its own')
    if name == "hf":
        return RULES[name]._replace(stop=_EARLY[early_stopping])
    if early_stopping is not False:
        raise TOGETHER(f'early_stopping belongs to the rule "hf"; "{name}" stops in a way of its own')
    return RULES[name]._replace(patience=patient)


@dataclass(frozen=True)
class Prune:
    """Limits below which candidates of a source are dropped, however many places its beam has.

    Parameters
    ----------
    relative : float, optional
        A candidate needs this part of the probability of the best one; above 0, at most 1.
    absolute : float, optional
        A candidate's log-probability may be this far below that of the best one; at least 0.
    local : float, optional
        The token alone needs this part of the probability of the best candidate's token; above 0, at most 1.
    per_parent : int, optional
        A hypothesis has at most so many candidates; at least 1.
    safe : bool
        Stop a source once its `n_best` best finished hypotheses cannot be beaten any more, as long as scores fall.

    Raises
    ------
    ConversionError
        If a number is out of its range.
    TypeError
        If an argument is not a number.

    References
    ----------
    M. Freitag, Y. Al-Onaizan (2017), "Beam Search Strategies for Neural Machine Translation", arXiv 1702.01806.

    Examples
    --------
    >>> import seqformats as sf
    >>> sf.Prune(absolute=2.5, per_parent=3)
    Prune(relative=None, absolute=2.5, local=None, per_parent=3, safe=False)
    """

    relative: float | None = None
    absolute: float | None = None
    local: float | None = None
    per_parent: int | None = None
    safe: bool = False

    def __post_init__(self) -> None:
        for name in ("relative", "local"):
            value = getattr(self, name)
            if value is not None and not 0 < number(value, name) <= 1:
                raise RANGE(f"{name} must be above 0 and at most 1, not {quote(value)}")
        if self.absolute is not None and not number(self.absolute, "absolute") >= 0:
            raise RANGE(f"absolute must be at least 0, not {quote(self.absolute)}")
        if self.per_parent is not None:
            object.__setattr__(self, "per_parent", check_at_least(self.per_parent, "per_parent", 1))
        flag(self.safe, "safe")

    def thresholds(self) -> Array:
        """Measure how far a candidate, and its token, may be below the best one: two log-probabilities, float32."""
        far = math.inf if self.absolute is None else number(self.absolute, "absolute")
        if self.relative is not None:
            far = min(far, -math.log(number(self.relative, "relative")))
        token = math.inf if self.local is None else -math.log(number(self.local, "local"))
        with np.errstate(over="ignore"):
            return np.array([far, token]).astype(np.float32)


# What float(...) would take, or take with a warning.
_NO_NUMBERS = (np.ndarray, bool, np.bool_, str, bytes, complex, np.complexfloating, np.timedelta64, np.datetime64)


def number(value: Any, what: str) -> float:
    """A real number of any library as a float; TypeError for everything else."""
    if is_array(value):
        value = np.asarray(to_host(value))[()]
    try:
        if not isinstance(value, _NO_NUMBERS):
            return float(value)
    except OverflowError:  # an integer; what is out of range is so as infinity, too
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError, RuntimeError):
        pass
    raise KIND(f"{what} must be a number, not {quote(value)}")
