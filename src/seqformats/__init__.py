"""Variable-length sequences in every layout, converted at memory speed.

See `convert` for conversions, `with_padded` for wrappers, `vjp` for gradients.
"""

import sys as _sys

from . import hints as _hints
from .converters import nested as _nested  # noqa: F401  registers the conversions of nested lists
from .errors import no_attribute as _no_attribute
from .lazy_import import import_now as _imported
from .names import EAGER_MODULES as _EAGER_MODULES
from .names import MODULES as _MODULES
from .names import PUBLIC_NAMES as _PUBLIC_NAMES
from .post_import_hook import when_imported as _when_imported

__version__ = "0.1.0"

_HOME = {name: module for module, names in _PUBLIC_NAMES.items() for name in names.split()}
__all__ = sorted(_HOME)


def __getattr__(name):
    """Load a name when it is first asked for."""
    if name not in _HOME and name not in _MODULES:
        return _hints.look_up(__name__, name, (*__all__, *_MODULES))
    try:
        module = _imported(f".{_HOME.get(name, name)}", __name__)
    except ImportError as error:
        raise _no_attribute(__name__, name, error) from error
    globals()[name] = found = module if name in _MODULES else getattr(module, name)
    return found


def __dir__():
    return sorted({*__all__, *_MODULES, "__version__"})


for _module in _EAGER_MODULES:  # the imports above have loaded these
    _found = _sys.modules[f"{__name__}.{_module}"]
    globals().update({_name: getattr(_found, _name) for _name in _PUBLIC_NAMES[_module].split()})

# Who has to know encodings before it meets one.
_when_imported("jax", ".jax")
_when_imported("torch", ".torch.citizen")
_when_imported("torch._dynamo", ".torch.graph")
_when_imported("thinc.types", ".thinc.types")
