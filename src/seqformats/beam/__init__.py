"""Ragged beam search: the step, the way back, and a decoder for any model."""

from .backtrace import Hypotheses, beam_backtrace
from .constraints import (
    AllowedTokens,
    BannedTokens,
    Constraint,
    DiverseGroups,
    ForcedPrefix,
    ForcedTokens,
    NoRepeatNgram,
    RepetitionPenalty,
    Trie,
)
from .decoder import BeamDecoder, BeamResult, BeamState, BeamTrace, beam_search
from .lexical import LexicalConstraints
from .rules import RULES, Prune, Rule
from .sampling import Stochastic
from .step import BeamStep, beam_step

__all__ = [
    "RULES",
    "AllowedTokens",
    "BannedTokens",
    "BeamDecoder",
    "BeamResult",
    "BeamState",
    "BeamStep",
    "BeamTrace",
    "Constraint",
    "DiverseGroups",
    "ForcedPrefix",
    "ForcedTokens",
    "Hypotheses",
    "LexicalConstraints",
    "NoRepeatNgram",
    "Prune",
    "RepetitionPenalty",
    "Rule",
    "Stochastic",
    "Trie",
    "beam_backtrace",
    "beam_search",
    "beam_step",
]
