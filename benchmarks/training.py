"""What training asks for beside a model: tokens masked at random, items shuffled, the loss of scores."""

from typing import Any

import numpy as np

import seqformats as sf

from .cells import Case, Limit, Peer, operation, plain
from .data import Batch
from .peers import torch

SHAPES = ("tiny", "small", "many", "ids", "short", "skewed")
CLASSES = ("tiny", "small", "wide", "many")
VOCABULARY, MASK, SPECIAL, NONE = 30_000, 4, (0, 1, 2, 3), -100


def ids_of(b: Batch) -> Any:
    return b.put(np.random.default_rng(3).integers(0, VOCABULARY, b.rows))


@operation("mask_tokens", SHAPES, cuda=False)
def _(b: Batch) -> Case:
    """Masked language modelling; all results have the same items, some of them as labels."""
    ids, rng = ids_of(b), np.random.default_rng(4)
    x = sf.Ragged(ids, b.lengths)

    def ours() -> Any:
        return sf.mask_tokens(x, mask_id=MASK, vocabulary=VOCABULARY, special=SPECIAL, seed=5)

    def by_numpy(x: Any, special: Any) -> Any:
        chosen = (rng.random(x.shape) < 0.15) & ~special
        labels, new = np.where(chosen, x, NONE), x.copy()
        masked = chosen & (rng.random(x.shape) < 0.8)
        new[masked] = MASK
        other = chosen & ~masked & (rng.random(x.shape) < 0.5)
        new[other] = rng.integers(VOCABULARY, size=x.shape)[other]
        return new, labels

    def by_torch(x: Any, special: Any) -> Any:
        """As the collator of transformers does it."""
        chosen = torch.full(x.shape, 0.15).masked_fill_(special, 0.0).bernoulli().bool()
        labels, new = x.masked_fill(~chosen, NONE), x.clone()
        masked = torch.full(x.shape, 0.8).bernoulli().bool() & chosen
        new[masked] = MASK
        other = torch.full(x.shape, 0.5).bernoulli().bool() & chosen & ~masked
        new[other] = torch.randint(VOCABULARY, x.shape)[other]
        return new, labels

    call, library = (by_numpy, np) if b.arrays == "NumPy" else (by_torch, torch)
    held = b.put(np.asarray(SPECIAL))
    peers: dict[str, Any] = {
        "flat": Peer(lambda: call(ids, library.isin(ids, held)), lambda y: unmasked(*y)),
    }
    if b.name != "skewed":
        block = sf.convert(x, sf.Masked)
        width, there = block.data, block.mask
        peers["padded"] = Peer(
            lambda: call(width, library.isin(width, held) | ~there), lambda y: unmasked(*(part[there] for part in y))
        )
    return Case(ours, peers, Limit(8 * b.rows, 17 * b.rows), lambda y: unmasked(y.ids.data, y.labels.data))


def unmasked(ids: Any, labels: Any) -> Any:
    ids, labels = plain(ids), plain(labels)
    return np.where(labels == NONE, ids, labels)


@operation("corrupt_spans", SHAPES, arrays=("NumPy",), cuda=False)
def _(b: Batch) -> Case:
    """Spans behind sentinels, beside a loop over the sequences as preprocessing scripts have it."""
    ids, rng, first = ids_of(b), np.random.default_rng(9), 2 * VOCABULARY
    x = sf.Ragged(ids, b.lengths)

    def parted(total: int, parts: int) -> Any:
        return np.diff(np.sort(rng.permutation(total - 1)[: parts - 1] + 1), prepend=0, append=total)

    def one(part: Any) -> tuple[list[Any], list[Any]]:
        hidden = min(max(round(part.size * 0.15), 1), part.size - 1)
        spans = max(min(round(hidden / 3), part.size - hidden), 1)
        inputs: list[Any] = []
        targets: list[Any] = []
        place = 0
        for k, (seen, away) in enumerate(zip(parted(part.size - hidden, spans), parted(hidden, spans), strict=True)):
            mark = np.array([first - k])
            inputs += [part[place : place + seen], mark]
            targets += [mark, part[place + seen : place + seen + away]]
            place += seen + away
        return inputs, [*targets, np.array([first - spans])]

    def each() -> Any:
        made = [one(part) for part in np.split(ids, b.offsets[1:-1]) if part.size > 1]
        return tuple(np.concatenate([array for both in made for array in both[k]]) for k in (0, 1))

    def counted(pair: Any) -> Any:
        """All tokens, wherever they are."""
        found = np.concatenate([plain(part) for part in pair])
        return np.sort(found[found < VOCABULARY])

    peers = {"NumPy, each": Peer(each, counted)} if b.n < 50_000 and b.lengths.min() > 1 else {}
    return Case(
        lambda: sf.corrupt_spans(x, sentinel=first, seed=5),
        peers,
        Limit(8 * b.rows, 9 * b.rows),
        lambda y: counted((y.inputs.data, y.targets.data)),
    )


@operation("shuffle", SHAPES, arrays=("NumPy",), cuda=False)
def _(b: Batch) -> Case:
    """Items of each sequence in a random order; all results have the same ones."""
    ids, rng = ids_of(b), np.random.default_rng(6)
    x = sf.Ragged(ids, b.lengths)

    def each() -> Any:
        return np.concatenate([rng.permutation(part) for part in np.split(ids, b.offsets[1:-1])])

    def by_keys() -> Any:
        return ids[np.lexsort((rng.random(b.rows), np.repeat(np.arange(b.n), b.lengths)))]

    peers: dict[str, Any] = {"lexsort of random keys": by_keys}
    if b.n < 50_000:
        peers["permutation of each"] = each
    peers = {name: Peer(run, lambda y: np.sort(plain(y))) for name, run in peers.items()}
    return Case(lambda: sf.shuffle(x, 7), peers, Limit(8 * b.rows, 8 * b.rows), lambda y: np.sort(plain(y)))


def by_numpy(scores: Any, targets: Any) -> Any:
    """The mean of the losses, as users of NumPy write it."""
    top = scores.max(-1, keepdims=True)
    log = np.log(np.exp(scores - top).sum(-1)) + top[..., 0]
    losses = log - np.take_along_axis(scores, np.maximum(targets, 0)[..., None], -1)[..., 0]
    return losses[targets != NONE].mean()


def classes_of(b: Batch) -> tuple[sf.Ragged, Any]:
    """Scores, and what is right: of one item in seven nothing."""
    targets = np.random.default_rng(8).integers(0, b.item[-1], b.rows)
    targets[::7] = NONE
    return b.ragged, b.put(targets)


@operation("cross_entropy", CLASSES)
def _(b: Batch) -> Case:
    """The mean over all items with a target."""
    x, targets = classes_of(b)
    padded, block = b.masked.data, sf.convert(sf.Ragged(targets, b.lengths), sf.Masked, fill=NONE).data

    def theirs(scores: Any, right: Any) -> Any:
        if b.arrays == "NumPy":
            return by_numpy(scores, right)
        classes = scores.shape[-1]
        return torch.nn.functional.cross_entropy(scores.reshape(-1, classes), right.reshape(-1), ignore_index=NONE)

    peers: dict[str, Any] = {"flat": lambda: theirs(x.data, targets), "padded": lambda: theirs(padded, block)}
    return Case(
        lambda: sf.cross_entropy(x, targets, ignore=NONE, reduction="mean"), peers, Limit(b.bytes, 0), exact=False
    )


@operation("cross_entropy with its gradient", CLASSES, arrays=("PyTorch",))
def _(b: Batch) -> Case:
    x, targets = classes_of(b)
    padded, block = b.masked.data, sf.convert(sf.Ragged(targets, b.lengths), sf.Masked, fill=NONE).data
    there = b.masked.mask

    def gradient(scores: Any, loss: Any) -> Any:
        scores = scores.detach().requires_grad_()
        loss(scores).backward()
        return scores.grad

    def ours(scores: Any) -> Any:
        return sf.cross_entropy(sf.Ragged(scores, x.lengths), targets, ignore=NONE, reduction="mean")

    def theirs(right: Any) -> Any:
        def loss(scores: Any) -> Any:
            classes = scores.shape[-1]
            return torch.nn.functional.cross_entropy(scores.reshape(-1, classes), right.reshape(-1), ignore_index=NONE)

        return loss

    peers = {
        "flat": lambda: gradient(x.data, theirs(targets)),
        "padded": Peer(lambda: gradient(padded, theirs(block)), lambda y: plain(y[there])),
    }
    return Case(lambda: gradient(x.data, ours), peers, Limit(2 * b.bytes, b.bytes), exact=False)


def of_labels(b: Batch, lengths: np.ndarray) -> Case:
    """The loss of labels that a model has learnt somewhat, and its gradient; the peer pads, as it must."""
    rng, width = np.random.default_rng(7), 32
    counts = np.maximum(lengths // 5, 1)
    x = sf.Ragged(rng.standard_normal((int(lengths.sum()), width)).astype(np.float32), lengths)
    labels = sf.Ragged(rng.integers(1, width, counts.sum()), counts)
    for i, label in enumerate(sf.convert(labels, sf.List).items):
        begin = int(lengths[:i].sum())
        spoken = np.sort(rng.choice(lengths[i], counts[i], replace=False))
        best = np.zeros(lengths[i], int)
        best[spoken] = label
        x.data[np.arange(begin, begin + lengths[i]), best] += 6
    masked = sf.convert(x, sf.Masked)
    logits, block = b.put(x.data), b.put(masked.data)
    flat, sizes, targets = (b.put(part) for part in (labels.data, lengths, counts))

    def gradient(scores: Any, loss: Any) -> Any:
        scores = scores.detach().requires_grad_()
        loss(scores).backward()
        return scores.grad

    def ours(scores: Any) -> Any:
        return sf.ctc_loss(sf.Ragged(scores, lengths), labels, normalised=False)

    def theirs(scores: Any) -> Any:
        return torch.nn.functional.ctc_loss(scores.log_softmax(-1).transpose(0, 1), flat, sizes, targets)

    peers = {"padded": Peer(lambda: gradient(block, theirs), lambda y: plain(y)[masked.mask])}
    return Case(lambda: gradient(logits, ours), peers, exact=False)


@operation("ctc_loss with its gradient", ("small", "wide", "text"), arrays=("PyTorch",), cuda=False)
def _(b: Batch) -> Case:
    return of_labels(b, b.lengths)


@operation("ctc_loss with its gradient, one length", ("small", "wide"), arrays=("PyTorch",), cuda=False)
def _(b: Batch) -> Case:
    """Make the case in which nothing is padded."""
    return of_labels(b, np.full(b.n, b.rows // b.n))


@operation("ctc_loss with its gradient, half of it padding", ("small", "wide"), arrays=("PyTorch",), cuda=False)
def _(b: Batch) -> Case:
    """Make the case in which lengths are anything up to twice the mean."""
    return of_labels(b, np.linspace(1, 2 * b.rows // b.n, b.n).astype(np.int64))
