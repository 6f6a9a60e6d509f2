"""Names for what PyTorch and transformers have, which need not be there when types are checked."""

from typing import Any, TypeAlias

Torch: TypeAlias = Any
"""PyTorch itself, which is imported where it is needed."""
Tensor: TypeAlias = Any
"""A `torch.Tensor`."""
Device: TypeAlias = Any
"""A `torch.device`."""
Model: TypeAlias = Any
"""A model of transformers, a `torch.nn.Module`."""
Config: TypeAlias = Any
"""The configuration of a model."""
Cache: TypeAlias = Any
"""Keys and values that a model keeps from step to step."""
