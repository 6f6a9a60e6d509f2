"""Joining and splitting on plain lists: a sequence is a list of items."""

import itertools


def joined(parts, n):
    """Sequence by sequence, one part after the other; what is no list stands for one item of every sequence."""
    return [[item for part in parts for item in (part[i] if isinstance(part, list) else [part])] for i in range(n)]


def interleaved(parts, n):
    """Sequence by sequence, an item of each part in turn, as long as there is one."""
    found = []
    for i in range(n):
        longest = max((len(part[i]) for part in parts), default=0)
        found.append([part[i][t] for t in range(longest) for part in parts if t < len(part[i])])
    return found


def types_of(parts):
    """The types that a template gives its parts: the number of a name, and of a token that of what stands before it."""
    names, found = [], []
    for part in parts:
        if isinstance(part, str) and part not in names:
            names.append(part)
        found.append(names.index(part) if isinstance(part, str) else found[-1] if found else 0)
    return found


def templated(parts, given, n, types=None):
    """Tokens, types and what has been put in, sequence by sequence; `given` are the sequences of each name."""
    types = types_of(parts) if types is None else types
    ids = joined([given[part] if isinstance(part, str) else part for part in parts], n)
    numbers, special = [], []
    for i in range(n):
        counts = [len(given[part][i]) if isinstance(part, str) else 1 for part in parts]
        numbers.append([kind for kind, count in zip(types, counts, strict=True) for _ in range(count)])
        put_in = [not isinstance(part, str) for part in parts]
        special.append([one for one, count in zip(put_in, counts, strict=True) for _ in range(count)])
    return ids, numbers, special


def split(sequence, marks, keep):
    """The parts of a sequence that is split at its marked items."""
    parts = [[]]
    for item, mark in zip(sequence, marks, strict=True):
        if mark and keep == "start":
            parts.append([])
        if not mark or keep != "drop":
            parts[-1].append(item)
        if mark and keep != "start":
            parts.append([])
    if not parts[-1]:
        parts.pop()
    if keep == "start" and parts and not parts[0]:
        parts.pop(0)
    return parts


def cut(sequence, lengths):
    """The parts of a sequence by their lengths."""
    ends = list(itertools.accumulate(lengths, initial=0))
    return [sequence[a:b] for a, b in itertools.pairwise(ends)]


def flattened(nest, depth, levels):
    """Lists `depth` deep whose innermost ones are joined, so many levels of them."""
    if depth > levels + 1:
        return [flattened(part, depth - 1, levels) for part in nest]
    for _ in range(levels):
        nest = [item for part in nest for item in part]
    return nest
