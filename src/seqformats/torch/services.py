"""Functions of PyTorch that encodings ask for, see `registry.service`."""

from .items import torch_function as torch_function
from .nested import from_njt as from_njt
from .nested import to_njt as to_njt
from .structure import structure_tensor as structure_tensor
