"""PyTorch: its loaders, its models, and what its compiler and its transforms need.

``import seqformats as sf`` is enough: ``sf.torch.collate``, ``sf.torch.BucketSampler``.  PyTorch itself is imported
where a batch is made.
"""

from ..loading.sampler import BucketSampler
from .collate import collate

__all__ = ["BucketSampler", "collate"]
