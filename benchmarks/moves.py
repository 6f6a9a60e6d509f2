"""Conversions between layouts, and sequences selected by index.

What makes an encoding new in each call begins with arrays and their lengths, as a data loader has them; "again" is the
second conversion of one batch, which knows its offsets and order already.
"""

from typing import Any

import numpy as np

import seqformats as sf

from .cells import Case, Limit, Peer, operation, plain
from .data import Batch
from .peers import ak, ops, pa, thinc, torch

WORDS = ("ids",)


def in_order(padded: Any) -> np.ndarray:
    """The columns of a time-major batch in the caller's order, of this library or Thinc."""
    columns = np.empty_like(plain(padded.data))
    columns[:, plain(padded.indices)] = plain(padded.data)
    return columns


def to_padded(b: Batch) -> Limit:
    return Limit(b.bytes, b.padded_bytes)


def mask_of(b: Batch) -> np.ndarray:
    """What a NumPy user writes."""
    return np.arange(b.longest) < b.lengths[:, None]


# --- from arrays -----------------------------------------------------------------------------------------------------


def made(b: Batch, lengths: Any) -> Case:
    """An encoding of items and lengths, which are checked and copied; the items are not."""
    flat = b.flat
    peers = {}
    if b.arrays == "NumPy":
        peers["Awkward"] = Peer(lambda: ak.unflatten(flat, lengths), lambda x: plain(ak.num(x)))
    return Case(lambda: sf.Ragged(flat, lengths), peers, None, lambda x: plain(x.lengths))


operation("Ragged(data, lengths)")(lambda b: made(b, b.lengths))
operation("Ragged(data, list of lengths)")(lambda b: made(b, b.lengths.tolist()))


# --- from a list -----------------------------------------------------------------------------------------------------


@operation("list -> ragged")
def _(b: Batch) -> Case:
    items = b.items
    if b.arrays == "NumPy":
        peers = {
            "NumPy concatenate, lengths": lambda: (
                np.concatenate(items),
                np.fromiter(map(len, items), np.int64, len(items)),
            ),
            "Thinc flatten": lambda: (ops.flatten(items), ops.asarray1i([len(x) for x in items])),
        }
        if b.name in WORDS:
            peers["pyarrow"] = Peer(lambda: pa.array(items, pa.large_list(pa.int64())), lambda x: x.values.to_numpy())
    else:
        peers = {
            "torch.cat": lambda: (torch.cat(items), torch.tensor([len(x) for x in items])),
            "nested_tensor": Peer(
                lambda: torch.nested.nested_tensor(items, layout=torch.jagged), lambda x: plain(x.values())
            ),
        }
        del peers["nested_tensor"]  # it warns, and makes the list anew; `torch.cat` is the same call without
        peers["as_nested_tensor"] = Peer(
            lambda: torch.nested.as_nested_tensor(items, layout=torch.jagged), lambda x: plain(x.values())
        )
    return Case(
        lambda: sf.convert(items, sf.Ragged),
        peers,
        Limit(b.bytes, b.bytes),
        lambda x: plain(x[0] if isinstance(x, tuple) else x),
    )


@operation("list -> padded")
def _(b: Batch) -> Case:
    items = b.items
    if b.arrays == "NumPy":

        def loop() -> np.ndarray:
            out = np.zeros((max(map(len, items)), len(items), *b.item), items[0].dtype)
            for i, x in enumerate(items):
                out[: len(x), i] = x
            return out

        peers = {"NumPy loop": Peer(loop, plain)}
        if b.item:
            peers["Thinc list2padded"] = Peer(lambda: ops.list2padded(items))
    else:
        peers = {"pad_sequence": Peer(lambda: torch.nn.utils.rnn.pad_sequence(items), plain)}
    return Case(lambda: sf.convert(items, sf.Padded), peers, to_padded(b), in_order)


@operation("list -> masked")
def _(b: Batch) -> Case:
    items = b.items
    if b.arrays == "NumPy":

        def loop() -> np.ndarray:
            out = np.zeros((len(items), max(map(len, items)), *b.item), items[0].dtype)
            for i, x in enumerate(items):
                out[i, : len(x)] = x
            return out

        peers = {"NumPy loop": loop, "Thinc pad": lambda: ops.pad(items)}
    else:
        peers = {"pad_sequence": lambda: torch.nn.utils.rnn.pad_sequence(items, batch_first=True)}
    return Case(lambda: sf.convert(items, sf.Masked), peers, to_padded(b))


# --- from ragged -----------------------------------------------------------------------------------------------------


def ragged_to_padded(b: Batch, again: bool) -> Case:
    flat, lengths, held = b.flat, b.lengths, b.ragged
    if b.arrays == "NumPy":

        def idiom() -> np.ndarray:
            out = np.zeros((b.longest, b.n, *b.item), flat.dtype)
            out.swapaxes(0, 1)[mask_of(b)] = flat
            return out

        peers = {"NumPy mask": Peer(idiom, plain)}
        if b.item:
            peers["Thinc list2padded"] = Peer(lambda: ops.list2padded(ops.unflatten(flat, lengths)))
    else:
        counts = lengths.tolist()
        peers = {
            "split, pad_sequence": Peer(
                lambda: torch.nn.utils.rnn.pad_sequence(torch.split(flat, counts if again else b.lengths.tolist())),
                plain,
            )
        }
    if again:
        return Case(lambda: sf.convert(held, sf.Padded), peers, to_padded(b), in_order)
    return Case(lambda: sf.convert(sf.Ragged(flat, lengths), sf.Padded), peers, to_padded(b), in_order)


def ragged_to_masked(b: Batch, again: bool) -> Case:
    flat, lengths, held = b.flat, b.lengths, b.ragged
    if b.arrays == "NumPy":

        def idiom() -> np.ndarray:
            out = np.zeros((b.n, b.longest, *b.item), flat.dtype)
            out[mask_of(b)] = flat
            return out

        peers = {"NumPy mask": idiom, "Thinc pad": lambda: ops.pad(ops.unflatten(flat, lengths))}
        if b.name in WORDS:

            def awkward() -> np.ndarray:
                x = b.awkward if again else ak.unflatten(flat, lengths)
                return ak.to_numpy(ak.fill_none(ak.pad_none(x, b.longest, axis=1, clip=True), 0))

            peers["Awkward"] = awkward
    else:
        counts = b.counts
        flat2 = b.flat2

        def jagged() -> Any:
            ends = b.ends if again else torch.nn.functional.pad(counts.cumsum(0), (1, 0))
            longest = b.longest if again else int(counts.max())
            out = torch.ops.aten._jagged_to_padded_dense_forward(flat2, [ends], [longest], 0.0)
            return out.view(b.n, longest, *b.item)

        def nested() -> Any:
            return torch.nested.nested_tensor_from_jagged(flat, b.ends, max_seqlen=b.longest).to_padded_tensor(0)

        peers = {"jagged_to_padded_dense": jagged, "nested, to_padded_tensor": nested}
        if not b.item and b.device == "cpu":  # the kernel of nested tensors wants an axis of items
            del peers["nested, to_padded_tensor"]
    if again:
        return Case(lambda: sf.convert(held, sf.Masked), peers, to_padded(b))
    return Case(lambda: sf.convert(sf.Ragged(flat, lengths), sf.Masked), peers, to_padded(b))


for _again in (False, True):
    _more = ", again" if _again else ""
    operation("ragged -> padded" + _more)(lambda b, again=_again: ragged_to_padded(b, again))
    operation("ragged -> masked" + _more)(lambda b, again=_again: ragged_to_masked(b, again))


@operation("ragged -> list")
def _(b: Batch) -> Case:
    flat, lengths, held = b.flat, b.lengths, b.ragged
    if b.arrays == "NumPy":
        peers = {
            "NumPy split": lambda: np.split(flat, np.cumsum(lengths)[:-1]),
            "Thinc unflatten": lambda: ops.unflatten(flat, lengths),
        }
    else:
        counts = b.counts
        peers = {"torch.split": lambda: torch.split(flat, counts.tolist()), "nested, unbind": b.jagged.unbind}
    return Case(lambda: sf.convert(held, sf.List), peers)


@operation("ragged -> packed")
def _(b: Batch) -> Case:
    flat, lengths = b.flat, b.lengths
    if b.arrays == "NumPy":

        def idiom() -> np.ndarray:
            order = np.argsort(-lengths, kind="stable")
            sizes = np.searchsorted(np.sort(-lengths), -np.arange(b.longest), side="left")
            step = np.repeat(np.arange(b.longest), sizes)
            column = np.arange(b.rows) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            begin = np.cumsum(lengths) - lengths
            return flat[begin[order][column] + step]

        peers = {"NumPy gather": Peer(idiom, plain)}
        read = plain
    else:
        rnn = torch.nn.utils.rnn
        counts = b.lengths.tolist()
        peers = {
            "split, pack_sequence": lambda: rnn.pack_sequence(torch.split(flat, counts), enforce_sorted=False),
        }

        def read(x: Any) -> np.ndarray:
            return plain(sf.convert(x if isinstance(x, sf.Packed) else sf.Packed.from_torch(x), sf.Ragged))

    return Case(lambda: sf.convert(sf.Ragged(flat, lengths), sf.Packed), peers, Limit(b.bytes, b.bytes), read)


# --- back ------------------------------------------------------------------------------------------------------------


@operation("padded -> ragged")
def _(b: Batch) -> Case:
    padded = b.padded
    data, lengths = padded.data, b.lengths
    back = np.argsort(padded.indices)
    if b.arrays == "NumPy":
        peers = {"NumPy mask": lambda: data[:, back].swapaxes(0, 1)[mask_of(b)]}
        if b.item:
            theirs = thinc.Padded(
                data, *(x.astype(np.int32) for x in (padded.size_at_t, padded.lengths, padded.indices))
            )
            peers["Thinc padded2list"] = lambda: ops.flatten(ops.padded2list(theirs))
    else:
        column, place, counts = b.column, b.put(back), torch.from_numpy(lengths)
        peers = {"mask": lambda: data[:, place].transpose(0, 1)[column]}
        if b.device == "cpu":
            peers["unpad_sequence, cat"] = lambda: torch.cat(
                torch.nn.utils.rnn.unpad_sequence(data[:, place], counts),
            )
    return Case(lambda: sf.convert(padded, sf.Ragged), peers, Limit(b.bytes, b.bytes))


@operation("masked -> ragged")
def _(b: Batch) -> Case:
    masked = b.masked
    data, lengths, column = masked.data, b.lengths, b.column
    if b.arrays == "NumPy":
        peers = {"NumPy mask": lambda: data[column], "Thinc unpad": lambda: ops.flatten(ops.unpad(data, lengths))}
        if not b.item:
            peers["Thinc unpad"] = lambda: np.concatenate(ops.unpad(data, lengths))
    else:
        dense, ends = data.reshape(b.n, b.longest, -1), b.ends
        peers = {
            "mask": lambda: data[column],
            "padded_dense_to_jagged": lambda: torch.ops.aten._padded_dense_to_jagged_forward(dense, [ends], b.rows),
        }
    return Case(lambda: sf.convert(masked, sf.Ragged), peers, Limit(b.bytes, b.bytes))


@operation("packed -> padded")
def _(b: Batch) -> Case:
    packed = b.packed
    if b.arrays == "NumPy":
        data, sizes = packed.data, packed.size_at_t

        def idiom() -> np.ndarray:
            out = np.zeros((b.longest, b.n, *b.item), data.dtype)
            out[np.arange(b.n) < sizes[:, None]] = data
            return out

        peers = {"NumPy mask": idiom}
        read = plain
    else:
        theirs = packed.to_torch()
        peers = {"pad_packed_sequence": Peer(lambda: torch.nn.utils.rnn.pad_packed_sequence(theirs)[0], plain)}
        read = in_order
    return Case(lambda: sf.convert(packed, sf.Padded), peers, to_padded(b), read)


@operation("select by index")
def _(b: Batch) -> Case:
    held, flat, lengths, offsets = b.ragged, b.flat, b.lengths, b.offsets
    index = np.random.default_rng(3).permutation(b.n)[: b.n // 2]
    chosen = int(lengths[index].sum()) * b.row_bytes
    if b.arrays == "NumPy":
        theirs = thinc.Ragged(b.flat2, b.lengths32)

        def gather() -> np.ndarray:
            counts = lengths[index]
            ends = np.cumsum(counts)
            return flat[np.repeat(offsets[index] - ends + counts, counts) + np.arange(ends[-1])]

        peers = {
            "NumPy gather": gather,
            "NumPy concatenate": lambda: np.concatenate([flat[offsets[i] : offsets[i + 1]] for i in index]),
            "Thinc Ragged": lambda: theirs[index],
            "Awkward": Peer(lambda: ak.to_packed(b.awkward[index]), lambda x: plain(ak.flatten(x, axis=1))),
        }
        if b.name in WORDS:
            where = pa.array(index)
            peers["pyarrow take"] = Peer(lambda: b.arrow.take(where), lambda x: x.flatten().to_numpy())
    else:
        at, counts, ends = b.put(index), b.counts, b.ends

        def gather() -> Any:
            chosen = counts[at]
            stops = chosen.cumsum(0)
            rows = torch.repeat_interleave(ends[at] - stops + chosen, chosen)
            return flat[rows + torch.arange(rows.numel(), device=b.device)]

        peers = {"gather": gather}
    return Case(lambda: held[index], peers, Limit(chosen, chosen))
