"""Batches of what is larger than memory: read, bucketed by length and laid out while the consumer computes."""

from .batching import batches as batches
