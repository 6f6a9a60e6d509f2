"""PyTorch: its loaders, its models, and what its compiler and its transforms need.

``import seqformats as sf`` is enough: ``sf.torch.collate``, ``sf.torch.BucketSampler``, ``sf.torch.flex_mask``.
PyTorch itself is imported where a function is called; a part of this package is loaded when its name is first asked
for, since what PyTorch is told of encodings is told in the moment of its import.
"""

from typing import TYPE_CHECKING

from ..errors import import_extra, no_attribute
from ..hints import look_up
from ..lazy_import import import_now

if TYPE_CHECKING:
    from ..loading.balanced_sampler import BalancedSampler
    from ..loading.sampler import BucketSampler
    from .attention import flex_mask, varlen
    from .collate import collate
    from .nested import from_njt, to_njt
    from .recurrent import Recurrent, rnn
    from .routes import attend, attention_route

__all__ = [
    "BalancedSampler",
    "BucketSampler",
    "Recurrent",
    "attend",
    "attention_route",
    "collate",
    "flex_mask",
    "from_njt",
    "rnn",
    "to_njt",
    "varlen",
]

_PLACES = {
    "BalancedSampler": "..loading.balanced_sampler",
    "BucketSampler": "..loading.sampler",
    "Recurrent": ".recurrent",
    "attend": ".routes",
    "attention_route": ".routes",
    "collate": ".collate",
    "flex_mask": ".attention",
    "from_njt": ".nested",
    "rnn": ".recurrent",
    "to_njt": ".nested",
    "varlen": ".attention",
}

if not TYPE_CHECKING:  # else a checker would believe in every name

    def __getattr__(name):
        """Load a name when it is first asked for."""
        if name not in _PLACES:
            return look_up(__name__, name, __all__)
        try:
            if _PLACES[name] == ".recurrent":  # a module of PyTorch, which is imported first
                import_extra("torch", "torch")
            found = getattr(import_now(_PLACES[name], __name__), name)
        except ImportError as error:
            raise no_attribute(__name__, name, error) from error
        globals()[name] = found
        return found

    def __dir__():
        return sorted({*globals(), *__all__})
