"""Returns, advantages and losses of reinforcement learning, over the steps of rollouts of different lengths."""

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
