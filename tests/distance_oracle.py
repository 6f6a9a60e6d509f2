"""Edit distances by the table of all prefixes, on plain Python lists."""


def levenshtein(one, two):
    """The distance of two lists."""
    row = list(range(len(two) + 1))
    for i, item in enumerate(one, 1):
        left, before = i, row
        row = [i]
        for j, other in enumerate(two):
            left = min(before[j + 1] + 1, left + 1, before[j] + (item != other))
            row.append(left)
    return row[-1]
