"""The best path of frames, in plain Python."""

import math


def best_path(frames, blank, logits=False):
    """The tokens, their times and the log-probability of a list of frames, each a list of floats; see `ctc_greedy`.

    The number of the first frame that holds NaN or +inf instead.
    """
    path, score = [], 0.0
    for t, row in enumerate(frames):
        if any(value != value or value == math.inf for value in row):
            return t
        best = max(row)
        if logits and best > -math.inf:
            score -= math.log(sum(math.exp(value - best) for value in row))
        else:
            score += best
        path.append(row.index(best))
    tokens, times, before = [], [], None
    for t, token in enumerate(path):
        if token != before:
            before = token
            if token != blank:
                tokens.append(token)
                times.append(t)
    return tokens, times, score
