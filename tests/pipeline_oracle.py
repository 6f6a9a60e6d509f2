"""The slow truth of what goes in and out of pipelines, on plain Python lists."""

import oracle


def model_inputs(sequences, *, side, pad_id, multiple_of, most, truncation_side, ignore):
    """The four rectangles as nested lists."""
    kept = [cut(sequence, most, truncation_side) for sequence in sequences]
    width = oracle.round_up(max(map(len, kept), default=0), multiple_of)

    def rectangle(rows, fill):
        padded = [(row, [fill] * (width - len(row))) for row in rows]
        return [free + row if side == "left" else row + free for row, free in padded]

    return {
        "input_ids": rectangle(kept, pad_id),
        "attention_mask": rectangle([[1] * len(row) for row in kept], 0),
        "position_ids": rectangle([list(range(len(row))) for row in kept], 0),
        "labels": rectangle(kept, ignore),
    }


def cut(sequence, most, side):
    if most is None or len(sequence) <= most:
        return sequence
    return sequence[:most] if side == "right" else sequence[len(sequence) - most :]


def mapped(truth, function, dtype=None, item_shape=None):
    """Every innermost sequence, a list of items, after a function of such."""

    def part(nest, depth):
        return function(nest) if depth == 0 else [part(child, depth - 1) for child in nest]

    return oracle.Truth(
        [part(nest, truth.levels - 1) for nest in truth.nest],
        truth.dtype if dtype is None else dtype,
        truth.item_shape if item_shape is None else item_shape,
        truth.levels,
    )
