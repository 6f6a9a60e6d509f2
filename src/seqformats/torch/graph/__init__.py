"""Models that use this library, in the graphs of `torch.compile` and `torch.export`.

Loaded when PyTorch's compiler is, by `when_imported`: nobody else pays for it, and nothing is to be called.
"""

import torch

from ...arrays import library_of
from . import nodes
from . import ops as ops

library_of(torch.empty(0))  # what leaves a graph is built without a look at its items, which makes their library known
nodes.register()
