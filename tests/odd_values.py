"""Arguments of every odd kind, and plausible ones, drawn from a random generator; see `hostile`."""

import contextlib
import dataclasses
import decimal
import fractions
import warnings

import example_encoding
import numpy as np

import seqformats as sf

ENCODINGS = (sf.List, sf.Ragged, sf.Padded, sf.Packed, sf.Masked, sf.LoD)
PLAIN = ["f4", "f8", "i8", "i4", "f2", "?", "u1", "u8", "c8", "c16"]
ODD = [">f4", ">i8", "<U3", "S2", "M8[s]", "m8[ms]", "V3", "V0", "S0", "U0", "g", "f4,i2", "i1", "u2", "G"]


def pick(rng, choices):
    return choices[int(rng.integers(len(choices)))]


# ----------------------------------------------------------------------------------------------- odd values


class Lone:
    """An array that shows itself through DLPack alone; with `device` as the protocol asks."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


class Full(Lone):
    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Broken:
    """An object of which nothing can be asked."""

    def __len__(self):
        raise KeyError("len")

    def __index__(self):
        raise KeyError("index")

    def __repr__(self):
        raise KeyError("repr")

    def __iter__(self):
        raise KeyError("iter")

    def __array__(self, dtype=None, copy=None):
        raise KeyError("array")


class Index:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


@dataclasses.dataclass
class Unknown:
    data: object = None
    lengths: object = None


def _within():
    """A dict within itself."""
    tree = {"ids": [[1]]}
    tree["tree"] = tree
    return tree


NUMBERS = [0, 1, 2, 3, -1, -2, 7, 2**31, 2**40, 2**62, 2**63 - 1, 2**63, 2**64, 2**65, -(2**63), -(2**65), 10**400]
NUMBERS += [
    10**5000,
    -(10**5000),
    0.0,
    -0.0,
    0.5,
    1.5,
    1e300,
    -1e300,
    float("nan"),
    float("inf"),
    -float("inf"),
    5e-324,
]
NUMBERS += [True, False, 1j, complex("nan"), fractions.Fraction(1, 3), decimal.Decimal("1e500"), decimal.Decimal("NaN")]
SCALARS = ["f2", "f4", "f8", "g", "i1", "u8", "i8", "c8", "?", "M8[s]", "m8[s]"]
TEXTS = [
    "",
    "x",
    "right",
    "left",
    "raise",
    "cpu",
    "cuda",
    "cuda:99",
    "max",
    "hf",
    b"",
    b"x",
    "\0",
    "é" * 50,
    np.str_("x"),
]
OBJECTS = [
    None,
    ...,
    NotImplemented,
    object,
    int,
    list,
    sf,
    sf.Ragged,
    np.ndarray,
    np.float32,
    set(),
    {},
    {1: 2},
    {"ids": [[1], [2, 3]], "labels": [0, 1]},
    {"ids": [[1]], "labels": [0, 1], "text": "x"},
    (sf.Ragged(np.arange(3.0), [1, 2]), np.arange(2), None),
    _within(),
    range(3),
]
OBJECTS += [slice(None), slice(None, None, -1), slice(2**65, None), slice("a"), lambda *a, **k: None, lambda x: x]
OBJECTS += [
    dataclasses,
    Unknown(),
    memoryview(b"ab"),
    bytearray(b"ab"),
    iter([1]),
    frozenset([1]),
    Index(1),
    Index(2**70),
]


def number(rng):
    value = pick(rng, NUMBERS)
    if rng.integers(4) == 0:
        with contextlib.suppress(Exception), quietly():
            return np.array(value).astype(pick(rng, SCALARS))[()]
    return value


@contextlib.contextmanager
def quietly():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def shape(rng):
    return tuple(int(k) for k in rng.integers(0, 4, int(rng.integers(0, 4))))


def array(rng, dtype=None, of=None):
    """An array of any dtype and kind of memory."""
    dtype = dtype or pick(rng, PLAIN + ODD)
    of = shape(rng) if of is None else of
    with quietly():
        values = rng.integers(-3, 9, of)
        if (np.dtype(dtype).kind in "VSU" and np.dtype(dtype).itemsize == 0) or np.dtype(dtype).names:
            x = np.zeros(of, np.dtype(dtype))
        else:
            x = values.astype("i8").astype(dtype) if np.dtype(dtype).kind != "V" else np.zeros(of, dtype)
    way = int(rng.integers(14))
    if way == 0:
        x.setflags(write=False)
    elif way == 1 and x.ndim:
        x = np.repeat(x, 2, 0)[::2]
    elif way == 2:
        x = x.T
    elif way == 3 and x.ndim:
        x = x[::-1]
    elif way == 4:
        x = np.ma.array(x, mask=bool(rng.integers(2)))
    elif way == 5:
        x = Full(x)
    elif way == 6:
        x = Lone(x)
    elif way == 7 and x.dtype.itemsize > 1:  # not aligned
        x = np.frombuffer(bytearray(1 + x.nbytes), x.dtype, x.size, 1).reshape(x.shape)
    elif way == 8 and x.dtype.kind == "f" and x.size:  # a signalling NaN
        x = np.array(x)
        if x.dtype.isnative and x.dtype.itemsize in (4, 8):
            x.reshape(-1).view(f"u{x.dtype.itemsize}")[0] = {4: 0x7F800001, 8: 0x7FF0000000000001}[x.dtype.itemsize]
    elif way == 9 and x.ndim:
        x = np.lib.stride_tricks.as_strided(x, (2, *x.shape[1:]), (0, *x.strides[1:])) if x.size else x
    return x


def nested(rng, depth):
    if depth == 0:
        return number(rng) if rng.integers(6) == 0 else int(rng.integers(9))
    count = int(rng.integers(4))
    made = [nested(rng, depth - (0 if rng.integers(20) == 0 and depth < 4 else 1)) for _ in range(count)]
    return tuple(made) if rng.integers(6) == 0 else made


def endless(rng):
    x = [1]
    way = int(rng.integers(5))
    if way == 0:
        x.append(x)
    elif way == 1:
        x[:] = [x, x]
    elif way == 2:
        x[:] = [(x,), [2]]
    elif way == 3:
        for _ in range(60):
            x = [x, x]
    else:
        for _ in range(3000):
            x = [x]
    return x


def odd(rng):
    way = int(rng.integers(16))
    if way < 4:
        return number(rng)
    if way == 4:
        return pick(rng, TEXTS)
    if way < 7:
        return pick(rng, OBJECTS)
    if way < 9:
        return array(rng)
    if way == 9:
        return array(rng, pick(rng, ["i8", "f8"]), (int(rng.integers(4)),))
    if way == 10:
        return [pick(rng, [number, array, odd])(rng) for _ in range(int(rng.integers(4)))]
    if way == 11:
        return nested(rng, int(rng.integers(1, 4)))
    if way == 12:
        return endless(rng)
    if way == 13:
        return batch(rng)
    if way == 14:
        return pick(rng, [np.array([None, 1]), np.array(3), np.empty((2**40, 0)), np.empty((3, 2**40, 0)), Broken()])
    return torch_value(rng) if TORCH else np.empty(0)


# -------------------------------------------------------------------------------------------- plausible ones


def lengths(rng, n=None):
    return [int(k) for k in rng.integers(0, 4, int(rng.integers(0, 4)) if n is None else n)]


def plain(rng, of, dtype=None):
    dtype = np.dtype(dtype or (pick(rng, ODD) if rng.integers(4) == 0 else pick(rng, PLAIN)))
    with quietly():
        if dtype.kind == "V" or dtype.itemsize == 0:
            return np.zeros(of, dtype)
        return rng.integers(0, 9, of).astype("i8").astype(dtype)


def item_shape(rng):
    return pick(rng, [(), (), (2,), (3,), (0,), (2, 2)])


def batch(rng, sizes=None, dtype=None, item=None):
    """A batch of any kind, sometimes with data that was changed afterwards."""
    sizes = lengths(rng) if sizes is None else sizes
    item = item_shape(rng) if item is None else item
    data = plain(rng, (sum(sizes), *item), dtype)
    if TORCH and rng.integers(3) == 0:
        with contextlib.suppress(TypeError, ValueError):
            data = tensor(rng, data)
    x = sf.Ragged(data, sizes)
    way = int(rng.integers(12))
    if way < 6:
        x = sf.convert(x, ENCODINGS[way], copy=bool(rng.integers(2)))
    elif way == 6:
        x = list(sf.convert(x, sf.List).items)
    elif way == 7:
        x = sf.convert(x, list)
    elif way == 8:
        x = example_encoding.Reversed(x.data, x.lengths)
    elif way == 9:
        cuts = np.sort(rng.integers(0, len(sizes) + 1, int(rng.integers(0, 3))))
        outer = np.array([0, *cuts.tolist(), len(sizes)])
        x = sf.LoD(x.data, [outer, x.offsets])
    elif way == 10:
        x = sf.Pairs(x, batch(rng, sizes))
    if rng.integers(25) == 0:
        change(rng, x)
    return x


def change(rng, x):
    data = x.items[0] if isinstance(x, sf.List) and x.items else getattr(x, "data", None)
    if type(data) is np.ndarray:
        with contextlib.suppress(ValueError), quietly():
            data.resize(
                pick(rng, [data.shape[:0], (0, *data.shape[1:]), (data.size,), (5, *data.shape[1:])]), refcheck=False
            )


def integers(rng, n=None):
    values = lengths(rng, n)
    way = int(rng.integers(10))
    if way == 0 and values:
        values[int(rng.integers(len(values)))] = number(rng)
    with contextlib.suppress(Exception), quietly():
        if way == 1:
            return np.array(values, pick(rng, ["i8", "u1", ">i4", "u8", "f8", "?"]))
        if way == 2:
            return Full(np.array(values, "i8"))
        if way == 3:
            return Lone(np.array(values, "i8"))
        if way == 4:
            return tuple(values)
        if way == 5 and TORCH:
            return tensor(rng, np.array(values, "i8"))
    return values


def several(rng):
    sizes = lengths(rng)
    dtype, item = (pick(rng, PLAIN), item_shape(rng)) if rng.integers(4) else (None, None)
    return [batch(rng, sizes if rng.integers(4) else None, dtype, item) for _ in range(int(rng.integers(4)))]


def target(rng):
    return pick(rng, [*ENCODINGS, *ENCODINGS, list, example_encoding.Reversed, sf.Pairs, Unknown, int, sf.TensorArray])


OPTIONS = {
    "fill": lambda rng: pick(rng, [0, 1, -1.5, np.zeros(2), "x", float("nan")]),
    "width": lambda rng: int(rng.integers(6)),
    "multiple_of": lambda rng: int(rng.integers(1, 5)),
    "truncate": lambda rng: bool(rng.integers(2)),
    "side": lambda rng: pick(rng, ["right", "left"]),
    "level": lambda rng: int(rng.integers(-2, 2)),
    "copy": lambda rng: bool(rng.integers(2)),
}


def options(rng, *names, most=2):
    """Some of these options, each plausible or odd."""
    chosen = [name for name in names or OPTIONS if rng.integers(4) == 0][:most]
    return {name: given(rng, OPTIONS.get(name, odd)) for name in chosen}


def given(rng, make):
    return odd(rng) if rng.integers(4) == 0 else make(rng)


def small(rng):
    return int(rng.integers(4))


def empty(rng):
    return {"empty": given(rng, lambda rng: pick(rng, [0.0, 1, "raise", -np.inf]))} if rng.integers(2) else {}


def function(rng):
    """What a wrapper may wrap: it returns what it should, or something else."""
    value = odd(rng)
    return pick(
        rng,
        [
            lambda x, *more: x,
            lambda x, *more: value,
            lambda x, *more: (x, value),
            lambda x, *more: getattr(x, "data", x),
        ],
    )


# --------------------------------------------------------------------------------------------------- with torch

TORCH = False


def tensor(rng, data):
    import torch

    x = torch.from_numpy(np.array(data))
    way = int(rng.integers(8))
    if way == 0 and x.is_floating_point():
        x = x.requires_grad_()
    elif way == 1 and not x.is_complex():
        x = x.to(torch.bfloat16)
    elif way == 2 and x.dim():
        x = torch.cat([x, x])[: len(x)]
    elif way == 3 and x.is_complex():
        x = x.conj()
    return x


def torch_value(rng):
    import torch

    x = torch.ones(3, 2)
    with quietly():
        return pick(
            rng,
            [
                lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(1)]),
                lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(1)], layout=torch.jagged),
                x.to_sparse,
                lambda: x.to("meta"),
                lambda: torch.tensor(2),
                lambda: torch.tensor([1.0], requires_grad=True),
                lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
                lambda: x.to(torch.float8_e4m3fn),
                lambda: x.t(),
                lambda: x.expand(2, 3, 2),
                lambda: x.to(torch.uint16),
                lambda: torch.nn.utils.rnn.pack_sequence([x, x[:1]]),
                lambda: torch.arange(3),
                lambda: torch.arange(3)[::2],
                lambda: torch.tensor([True, False, True]),
                lambda: torch.float32,
            ],
        )()
