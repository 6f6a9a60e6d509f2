"""Pictures of batches, padding, masks, searches and times, by matplotlib; ``pip install 'seqformats[plot]'``.

Every function draws on the axes `ax`, or on a new figure, and returns the axes.  A picture is bounded whatever the
batch.  What lies on a GPU is not read, unless ``copy=True`` says so: lengths are on the host anyway.

Examples
--------
>>> import numpy as np
>>> import seqformats as sf
>>> x = sf.Ragged(np.arange(7), [2, 4, 1])
>>> ax = sf.plot.layout(sf.convert(x, sf.Masked))
>>> ax.get_xlabel(), ax.get_ylabel()
('place', 'sequence')
"""

from .batches import block_mask, buckets, layout, lengths, mask, padding
from .races import times
from .searches import lattice, prefixes

__all__ = ["block_mask", "buckets", "lattice", "layout", "lengths", "mask", "padding", "prefixes", "times"]
