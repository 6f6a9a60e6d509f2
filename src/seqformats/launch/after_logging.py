"""Loaded once `logging` is there, whose lock no fork may hold while it waits for a compiling thread."""

from .threads import register_hooks

register_hooks()
