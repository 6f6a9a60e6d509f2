"""Conversions that encodings ask for, see `registry.service`."""

from .convert import as_own as as_own
from .convert import convert as convert
from .convert import in_pieces as in_pieces
from .library import cast as cast
from .nested import from_nested as from_nested
