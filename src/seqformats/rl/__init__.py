"""Returns, advantages and losses of reinforcement learning, over the steps of rollouts of different lengths."""

from typing import TYPE_CHECKING

from ..hints import look_up
from .eligibility import traces
from .groups import group_advantages, moments, whiten
from .losses import mean_loss, policy_loss, ratios
from .rewards import token_rewards
from .steps import Advantages, gae, returns

__all__ = [
    "Advantages",
    "gae",
    "group_advantages",
    "mean_loss",
    "moments",
    "policy_loss",
    "ratios",
    "returns",
    "token_rewards",
    "traces",
    "whiten",
]

if not TYPE_CHECKING:  # else a checker would believe in every name

    def __getattr__(name):
        return look_up(__name__, name, __all__)
