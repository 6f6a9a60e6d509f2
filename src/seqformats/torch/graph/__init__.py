"""Models that use this library, in the graphs of `torch.compile` and `torch.export`.

Loaded when PyTorch's compiler is, by `when_imported`: nobody else pays for it, and nothing is to be called.
"""

from . import nodes
from . import ops as ops

nodes.register()
