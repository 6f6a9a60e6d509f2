"""What the public functions return, as a type checker sees it; read by mypy and never run.

`assert_type` fails for what is `Any`, so each line here is a promise to whoever checks a program that uses the library.
"""

from collections.abc import Callable
from typing import Any, Literal, assert_type

import numpy as np

import seqformats as sf
from seqformats.arrays import Array


def is_checked(x: sf.Ragged) -> None:
    """A wrong promise is found."""
    assert_type(sf.equal(x, x), str)  # type: ignore[assert-type]
    assert_type(sf.convert(x, sf.Masked), sf.Padded)  # type: ignore[assert-type]


def conversions(x: sf.Ragged, y: sf.LoD, anything: object) -> None:
    """The target says what comes back, from whatever is not known to be columns under names."""
    assert_type(sf.convert(x, sf.List), sf.List)
    assert_type(sf.convert(x, sf.Ragged), sf.Ragged)
    assert_type(sf.convert(x, sf.Padded, fill=-1, multiple_of=8), sf.Padded)
    assert_type(sf.convert(x, sf.Packed), sf.Packed)
    assert_type(sf.convert(x, sf.Masked, side="left"), sf.Masked)
    assert_type(sf.convert(x, sf.LoD), sf.LoD)
    assert_type(sf.convert(y, sf.Masked, level=0, copy=True), sf.Masked)
    assert_type(sf.convert(anything, sf.Padded), sf.Padded)
    assert_type(sf.convert([[1, 2], [3]], sf.Ragged), sf.Ragged)
    assert_type(sf.convert(x, list), list[Any])
    assert_type(sf.convert_like(x, y), sf.LoD)
    assert_type(sf.equal(x, y), bool)
    assert_type(sf.explain(sf.Ragged, sf.Padded), str)


class Tensor:
    """An array of another library."""

    shape: tuple[int, ...] = (5,)
    dtype: Any = None


def other_arrays(x: sf.Ragged[Tensor], relu: Callable[[Tensor], Tensor]) -> None:
    """The type of the data goes along, and an encoding of it is one of those whose data may be anything."""
    assert_type(x.data, Tensor)
    assert_type(sf.convert(x, sf.Masked), sf.Masked[Tensor])
    assert_type(sf.convert_like(x, x), sf.Ragged[Tensor])
    assert_type(x[1:], sf.Ragged[Tensor])
    fields(x, sf.convert(x, sf.Masked), sf.convert(x, sf.LoD))
    assert_type(sf.with_array(relu)(x), sf.Ragged[Tensor])


def building() -> None:
    """Arguments are what users have: lists are sequences, and lengths are whole numbers in any form.

    The type of the data is known where it is seen; NumPy's without its number of axes, which conversions change.
    """
    items = [np.zeros(2), np.zeros(3)]
    assert_type(sf.List(items), sf.List[np.ndarray])
    assert_type(sf.List(tuple(items)), sf.List[np.ndarray])
    assert_type(sf.Ragged(np.zeros(5), [2, 3]), sf.Ragged[np.ndarray])
    assert_type(sf.Ragged(np.zeros(5), lengths=np.array([2, 3])), sf.Ragged[np.ndarray])
    assert_type(sf.Ragged(Tensor(), [2, 3]), sf.Ragged[Tensor])
    assert_type(sf.Ragged.from_offsets(np.zeros(5), [0, 2, 5]), sf.Ragged)
    assert_type(sf.Ragged.from_row_splits(np.zeros(5), [0, 2, 5]), sf.Ragged)
    assert_type(sf.Ragged.from_row_lengths(np.zeros(5), [2, 3]), sf.Ragged)
    assert_type(sf.Ragged.from_value_rowids(np.zeros(5), np.array([0, 0, 1, 1, 1]), nrows=2), sf.Ragged)
    assert_type(sf.LoD(np.zeros(5), [[0, 2, 5]]), sf.LoD[np.ndarray])
    assert_type(sf.LoD.from_lengths(np.zeros(5), [[2, 3]]), sf.LoD)
    assert_type(sf.LoD.from_nested([[1, 2], [3]]), sf.LoD)
    assert_type(sf.Masked.from_mask(np.zeros((2, 3)), np.ones((2, 3), bool)), sf.Masked)
    assert_type(sf.TensorArray([np.zeros(2), np.zeros(1)]), sf.TensorArray)


def fields(x: sf.Ragged, y: sf.Masked, z: sf.LoD) -> None:
    """What an encoding answers; data of any library goes wherever it is wanted."""
    data: np.ndarray = x.data
    assert_type(data, np.ndarray)
    assert_type(x.lengths, Array)
    assert_type(x.offsets, Array)
    assert_type(y.mask, Array)
    assert_type(y.side, Literal["right", "left"])
    assert_type(z.lod, tuple[Array, ...])
    assert_type(z.lengths(), list[list[int]])
    assert_type(x.rows, int)
    assert_type(x.max_length, int)
    assert_type(x.item_shape, tuple[int, ...])
    assert_type(x.device, str)
    assert_type(len(x), int)
    assert_type(sf.lengths(x), Array)


def choosing(x: sf.Ragged, y: sf.LoD) -> None:
    """The same encoding, other sequences."""
    assert_type(x[1:3], sf.Ragged)
    assert_type(x[[2, 0]], sf.Ragged)
    assert_type(y[0:1], sf.LoD)
    assert_type(sf.select(x, [1, 0]), sf.Ragged)
    assert_type(sf.reorder(x, [1, 0]), sf.Ragged)
    assert_type(sf.sort_by_length(x), tuple[sf.Ragged, Array])
    assert_type(sf.inverse_order([1, 0]), Array)
    assert_type(sf.join_batches([x, x]), sf.Ragged)
    assert_type(sf.split_batches(x, [1, 1]), list[sf.Ragged])
    assert_type(sf.to_device(x, "cpu"), sf.Ragged)
    assert_type(sf.to(x, "numpy", dtype="f4"), sf.Ragged)
    assert_type(sf.astype(x, "f4"), sf.Ragged)


def in_and_out(x: sf.Ragged[np.ndarray], y: sf.LoD) -> None:
    """Arrays of the library of the batch, lists, names."""
    assert_type(x.sequences()[0], np.ndarray)
    assert_type(x.sequences()[1:], tuple[np.ndarray, ...])
    assert_type(y.to_nested(), list[Any])
    assert_type(sf.model_inputs([[1, 2], [3]]), dict[str, Array])
    assert_type(sf.to_arrays(y), dict[str, Array])
    assert_type(sf.position_ids(x), Array)
    assert_type(sf.minimum_bayes_risk(y), tuple[sf.LoD, Array, Array])
    assert_type(sf.segment_ids(y, layout=True), sf.LoD)


def one_row_a_sequence(x: sf.Ragged, y: sf.Masked) -> None:
    """Reductions give an array; those of a LoD may give a LoD, and say nothing here."""
    assert_type(sf.reduce_sum(x), Array)
    assert_type(sf.reduce_mean(y, empty=-1.0), Array)
    assert_type(sf.reduce_sqrt(x), Array)
    assert_type(sf.reduce_max(x), Array)
    assert_type(sf.reduce_min(x), Array)
    assert_type(sf.reduce_first(x), Array)
    assert_type(sf.reduce_last(x), Array)
    assert_type(sf.reduce_logsumexp(x), Array)
    assert_type(sf.reduce_mean(x, weights=np.zeros(3)), Array)
    assert_type(sf.reduce_var(x, ddof=1), Array)
    assert_type(sf.reduce_std(y), Array)
    assert_type(sf.reduce_median(x), Array)
    assert_type(sf.reduce_quantile(x, [0.1, 0.9], interpolation="lower"), Array)
    assert_type(sf.reduce_mode(x), Array)
    assert_type(sf.reduce_nunique(x), Array)
    assert_type(sf.reduce_count(x), Array)
    assert_type(sf.reduce_any(x), Array)
    assert_type(sf.reduce_all(x), Array)
    assert_type(sf.reduce(x, "max"), Array)
    assert_type(sf.argmax(x), Array)
    assert_type(sf.argmin(x), Array)
    assert_type(sf.topk_mean(x, [1, 2]), Array)
    assert_type(sf.levenshtein(x, y), Array)


def along_each_sequence(x: sf.Padded, y: sf.LoD) -> None:
    """The encoding stays."""
    assert_type(sf.softmax(x), sf.Padded)
    assert_type(sf.log_softmax(x), sf.Padded)
    assert_type(sf.cumsum(y), sf.LoD)
    assert_type(sf.reverse(x), sf.Padded)
    assert_type(sf.concat([x, x]), sf.Padded)
    assert_type(sf.concat([101, x, np.int64(3), np.zeros(4)]), object)
    assert_type(sf.interleave([x, x]), sf.Padded)
    assert_type(sf.Template([101, "a", 102])(x).ids, sf.Padded)
    assert_type(sf.Template([101, "a", 102], types=[0, 0, 1])(a=y).special, sf.LoD)
    assert_type(sf.slice(x, 0, 1), sf.Padded)
    assert_type(sf.cut(x, 1, -1), sf.Padded)
    assert_type(sf.truncate(x, [1, 2], "left"), sf.Padded)
    assert_type(sf.shift(x, -1, fill=0), sf.Padded)
    assert_type(sf.chunk(x, 3, 1, last="pad"), sf.Chunks)
    assert_type(sf.unchunk(sf.chunk(y, 3), "mean"), sf.LoD)
    assert_type(sf.filter(x, np.ones(3, bool)), sf.Padded)
    assert_type(sf.run_starts(x), sf.Padded)
    assert_type(sf.gather(x, [[0]]), sf.Padded)
    assert_type(sf.scatter(x, [[0]], [[1.0]], mode="put"), sf.Padded)
    assert_type(sf.put_sequences(y, [0], x), sf.LoD)
    assert_type(sf.sort(x, descending=True), sf.Padded)
    assert_type(sf.argsort(y), sf.LoD)
    assert_type(sf.topk(x, 2), sf.TopK[sf.Padded])
    assert_type(sf.unique(x), sf.Padded)
    assert_type(sf.unique(x, counts=True), sf.Unique[sf.Padded])
    assert_type(sf.cross(x, y), sf.Pairs)
    assert_type(sf.window(x, 1, 1), sf.Padded)
    assert_type(sf.ngrams(x, 2), sf.Padded)
    assert_type(sf.conv(x, np.zeros((3, 4)), 1, 1), sf.Padded)
    assert_type(sf.repeat(x, 2), sf.Padded)
    assert_type(sf.expand_as(np.zeros(3), y), sf.LoD)
    assert_type(sf.shuffle(x, 1), sf.Padded)


def training(x: sf.Padded, y: sf.LoD) -> None:
    """Masked tokens and spans are as the ids, each by its name."""
    masked = sf.mask_tokens(x, mask_id=4, vocabulary=99, seed=1)
    assert_type(masked, sf.MaskedTokens[sf.Padded])
    assert_type(masked.labels, sf.Padded)
    _, labels, chosen = masked
    assert_type(chosen, sf.Padded)
    assert_type(sf.mask_tokens(y, mask_id=98, spans=3.0, seed=1), sf.SpanCorrupted[sf.LoD])
    assert_type(sf.corrupt_spans(y, sentinel=98, seed=1).inputs, sf.LoD)
    assert_type(sf.cross_entropy(x, labels, reduction="none"), sf.Padded)
    assert_type(sf.cross_entropy(x, labels, reduction="mean"), Array)
    assert_type(sf.recurrence(x, 0.5), sf.Padded)
    assert_type(sf.recurrence(x, 0.5, final=True), tuple[sf.Padded, Array])
    assert_type(sf.standardize(x, level=None), sf.Padded)
    assert_type(sf.rl.gae(x, x).advantages, sf.Padded)
    assert_type(sf.rl.mean_loss(sf.rl.policy_loss(x, x, np.zeros(2))), Array)
    assert_type(sf.cross_entropy(x, np.zeros(3, int), ignore=-100), Array)


def levels(x: sf.Padded, y: list[list[int]], z: sf.LoD) -> None:
    """A level more or less is a `LoD`, or bare lists."""
    assert_type(sf.split_at(x, 1), sf.LoD)
    assert_type(sf.split_at(y, {1, 2}, "drop"), list[Any])
    assert_type(sf.split_at(np.zeros(3, int), [1], keep="start"), sf.LoD)
    assert_type(sf.split(x, np.zeros(3, bool)), sf.LoD)
    assert_type(sf.split(x, lengths=[[1, 2]]), sf.LoD)
    assert_type(sf.flatten_levels(z, 2), sf.LoD)
    assert_type(sf.flatten_levels([y], outermost=True), list[Any])
    assert_type(sf.nest(x, [1, 2]), sf.LoD)


def attention_and_batches(x: sf.Ragged) -> None:
    """Arrays for attention, and positions batch by batch."""
    assert_type(sf.mask([1, 2]), Array)
    assert_type(sf.position_ids(x), Array)
    assert_type(sf.segment_ids(x), Array)
    assert_type(sf.cu_seqlens(x), Array)
    assert_type(sf.block_mask(x), Array)
    assert_type(sf.buckets([1, 2], 10), sf.Ragged)
    assert_type(sf.pack_bins([1, 2], 10), sf.Ragged)
    assert_type(sf.balance([1, 2], 2).bound, float)
    assert_type(sf.pack(x, 10).ids, sf.Ragged)


def gradients(x: sf.Masked) -> None:
    """The result is that of the operation."""
    y, pullback = sf.vjp(sf.softmax, x)
    assert_type(y, sf.Masked)
    assert_type(pullback, Callable[[Any], Any])


def scaled(x: sf.Padded, factor: float, *, shift: float = 0.0) -> sf.Padded:
    """A function that somebody wrote for one layout."""
    return sf.Padded(x.data * factor + shift, x.size_at_t, x.lengths, x.indices)


def doubled(rows: np.ndarray) -> np.ndarray:
    """A function of rows; what a lambda returns is not known."""
    return np.multiply(rows, 2)


class Model:
    """A wrapper around a method keeps `self` first."""

    @sf.with_masked(side="left")
    def layer(self, x: sf.Masked, factor: float) -> sf.Masked:
        """A layer of it."""
        return sf.Masked(x.data * factor, x.lengths, x.side)


def wrappers(x: sf.Ragged) -> None:
    """What follows the first argument stays as it was, with and without options; the caller's encoding comes back."""
    wrapped = sf.with_padded(scaled)
    assert_type(wrapped(x, 2.0, shift=1.0), sf.Ragged)
    wrapped(x)  # type: ignore[call-arg]
    wrapped(x, "2")  # type: ignore[arg-type]
    again = sf.with_padded(multiple_of=8)(scaled)
    assert_type(again(x, 2.0), sf.Ragged)
    rows = sf.with_array(doubled)
    assert_type(rows(x), sf.Ragged)
    assert_type(Model().layer(x, 2.0), sf.Ragged)


def with_rule(x: sf.Padded) -> tuple[sf.Padded, Callable[[Any], Any]]:
    """What an operation is made of: the result and its pullback."""
    return x, lambda dy: dy


def own_operations(x: sf.Padded) -> None:
    """An operation takes what its function takes, and gives what that gives."""
    double = sf.operation(scaled, transpose=scaled)
    assert_type(double(x, 2.0, shift=1.0), sf.Padded)
    double(x, "2")  # type: ignore[arg-type]
    assert_type(sf.operation(transpose=scaled)(scaled)(x, 2.0), sf.Padded)
    assert_type(sf.operation(with_rule)(x), sf.Padded)
    assert_type(sf.vjp(double, x, 2.0), tuple[sf.Padded, Callable[[Any], Any]])


def decoding(state_of: Callable[[sf.BeamState], tuple[Any, Any]]) -> None:
    """A search and its result."""
    found = sf.beam_search(state_of, None, start=np.array([1, 2]), end=0, beam_size=2, max_new_tokens=8)
    assert_type(found, sf.BeamResult)
    assert_type(found.tokens, sf.LoD)
    assert_type(found.scores, Array)
    assert_type(found.rows, int)


def steps(x: sf.LoD) -> None:
    """Time steps and back."""
    array = sf.TensorArray.unpack(x)
    assert_type(array, sf.TensorArray)
    assert_type(len(array), int)
    assert_type(array.pack_prefixes(), sf.LoD)


def trees(lists: dict[str, list[list[int]]], columns: dict[str, sf.Ragged], pair: tuple[sf.Ragged, sf.Masked]) -> None:
    """A dict of columns is a dict afterwards; what changes no kind keeps the type."""
    assert_type(sf.convert(lists, sf.Masked, fill={"labels": -100}), dict[str, Any])
    assert_type(sf.convert(lists, list), dict[str, Any])
    assert_type(sf.select(columns, [1, 0]), dict[str, sf.Ragged])
    assert_type(sf.select(pair, [1, 0]), tuple[sf.Ragged, sf.Masked])
    assert_type(sf.reorder(columns, [1, 0]), dict[str, sf.Ragged])
    assert_type(sf.sort_by_length(columns, by="ids"), tuple[dict[str, sf.Ragged], Array])
    assert_type(sf.join_batches([columns, columns]), dict[str, sf.Ragged])
    assert_type(sf.split_batches(columns, [1, 1]), list[dict[str, sf.Ragged]])
    assert_type(sf.to(columns, "numpy"), dict[str, sf.Ragged])
    assert_type(sf.to_device(columns, "cpu"), dict[str, sf.Ragged])
    assert_type(sf.convert_like(columns, columns), dict[str, sf.Ragged])
    assert_type(sf.equal(columns, columns), bool)
