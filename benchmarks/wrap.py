"""What a wrapper adds to a function that does nothing: the way to the layout that it wants, and back."""

from typing import Any

import numpy as np

import seqformats as sf

from .cells import Case, Limit, Peer, operation, plain
from .data import Batch
from .moves import in_order
from .peers import ops, thinc, torch

SHAPES = ("tiny", "small", "wide")


def identity(x: Any) -> Any:
    return x


def theirs(name: str, x: Any) -> Any:
    """A Thinc layer around one that does nothing."""
    model = getattr(thinc, name)(thinc.noop())
    return lambda: model.predict(x)


def in_thinc(encoding: str, b: Batch) -> Any:
    """The batch as Thinc has it, None where it has no such layout."""
    if encoding == "List":
        return b.items
    if encoding == "Ragged":
        return thinc.Ragged(b.flat2, b.lengths32)
    if encoding == "Padded":
        p = b.padded
        return thinc.Padded(p.data, *(x.astype(np.int32) for x in (p.size_at_t, p.lengths, p.indices)))
    return None


def mine(encoding: str, b: Batch) -> Any:
    return {"List": b.items, "LoD": None}.get(encoding) or getattr(b, encoding.lower())


def rows(x: Any) -> Any:
    """The items, columns in the order of the caller: who is first among sequences of one length is not the same."""
    return in_order(x) if hasattr(x, "indices") and plain(x.data).ndim > 2 else plain(x)


def by_torch(wrapper: str, encoding: str, b: Batch) -> dict[str, Any]:
    """What a PyTorch user writes; there are no wrappers."""
    rnn = torch.nn.utils.rnn
    if wrapper == "with_padded" and encoding == "List":
        items, counts = b.items, torch.from_numpy(b.lengths.copy())
        return {"pad_sequence, unpad_sequence": lambda: rnn.unpad_sequence(rnn.pad_sequence(items), counts)}
    if wrapper in ("with_padded", "with_masked") and encoding == "Ragged":
        flat, ends, longest = b.flat2, b.ends, b.longest

        def there_and_back() -> Any:
            dense = torch.ops.aten._jagged_to_padded_dense_forward(flat, [ends], [longest], 0.0)
            return torch.ops.aten._padded_dense_to_jagged_forward(dense, [ends], b.rows)

        return {"jagged_to_padded_dense and back": there_and_back}
    if wrapper == "with_ragged" and encoding == "List":
        items, counts = b.items, b.lengths.tolist()
        return {"cat, split": lambda: torch.split(torch.cat(items), counts)}
    return {}


def wrapped(wrapper: str, encoding: str, b: Batch) -> Case:
    function = getattr(sf, wrapper)(identity)
    x = mine(encoding, b)
    if b.arrays == "PyTorch":
        peers = by_torch(wrapper, encoding, b)
    else:
        peers = {}
        given = in_thinc(encoding, b) if ops else None
        if given is not None and hasattr(thinc, wrapper):
            peers["Thinc"] = Peer(theirs(wrapper, given))
    layouts = {wrapper.removeprefix("with_"), encoding.lower()}
    written = sum(b.padded_bytes if layout in ("padded", "masked") else b.bytes for layout in layouts)
    # between lists and one flat array, one of the two ways shares memory
    limit = None if len(layouts) == 1 or layouts == {"list", "ragged"} else Limit(2 * b.bytes, written)
    return Case(lambda: function(x), peers, limit, rows)


for _wrapper in ("with_list", "with_ragged", "with_padded", "with_packed", "with_masked"):
    for _encoding in ("List", "Ragged", "Padded", "Packed", "Masked"):
        operation(f"{_wrapper} on {_encoding}", SHAPES)(
            lambda b, wrapper=_wrapper, encoding=_encoding: wrapped(wrapper, encoding, b)
        )
