"""Loaded once `logging` is there, whose lock no fork may hold while it waits for a compiling thread."""

from .lazy_import import register_hooks

register_hooks()
