"""Doors: compiled entrances to operations, which take objects of Python and NumPy and make others.

A door does for plain batches what the general way of its operation does, in one call and without Python's functions;
for everything else it returns None, and the general way goes on.  `language` has the words that they are written in.
"""
