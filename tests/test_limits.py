"""What has no end, and what no memory can hold: an error at once, instead of a call that never comes back."""

import contextlib
import gc
import inspect
import pathlib
import resource
import sys
import weakref

import numpy as np
import pytest

import seqformats as sf
import seqformats.aliases  # of the tables that are there once an error has asked for them
from seqformats import errors, memory_checks

MANY = 2**40  # rows; without items they take no memory


@pytest.fixture(autouse=True)
def little_memory():
    """A call that goes on for ever ends in a MemoryError before the machine does."""
    own, most = resource.getrlimit(resource.RLIMIT_AS)
    used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30), most))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (own, most))


def ragged():
    return sf.Ragged(np.arange(3), [1, 0, 2])


# ------------------------------------------------------------------------------------------------ lists in lists


def itself():
    x = []
    x.append(x)
    return x


def twice():
    x = []
    x += [x, x]
    return x


def beside():
    x = [[1]]
    x.append(x)
    return x


def mutual():
    x = []
    x.append(([2], x))
    return x


def within():
    x = [[[1], [2]], [[3]]]
    x[1][0].append(x[1])
    return x


def within_arrays():
    x = [[np.arange(2)], []]
    x[1].append(x)
    return x


ENDLESS = {make.__name__: make for make in (itself, twice, beside, mutual, within, within_arrays)}
WALKS = {
    "from_nested": sf.LoD.from_nested,
    "convert": lambda x: sf.convert(x, sf.Ragged),
    "copy": lambda x: sf.convert(x, list, copy=True),
    "with_flatten": sf.with_flatten(lambda items: items),
    "with_ragged": sf.with_ragged(lambda batch: batch),
    "returned": lambda x: sf.with_list(lambda batch: x)(ragged()),
    "concat": lambda x: sf.concat([x, ragged()]),
    "join": lambda x: sf.join_batches([ragged(), x]),
    "equal": lambda x: sf.equal(x, x),
    "lengths": sf.lengths,
    "Pairs": lambda x: sf.Pairs(x, x),
    "like": lambda x: sf.convert_like(ragged(), x),
    "gradient": lambda x: sf.vjp(sf.convert, ragged(), sf.Masked)[1](x),
}


@pytest.mark.parametrize("make", ENDLESS.values(), ids=ENDLESS)
@pytest.mark.parametrize("walk", WALKS.values(), ids=WALKS)
def test_a_list_within_itself(walk, make):
    with pytest.raises(sf.StructureError, match="own items|equally deep"):
        walk(make())


@pytest.mark.parametrize("make", ENDLESS.values(), ids=ENDLESS)
def test_a_list_within_itself_has_no_levels_either(make):
    for levels in (1, 2, 17):
        with pytest.raises(sf.StructureError):
            sf.LoD.from_nested(make(), levels=levels)


JUNK = {
    "fill": lambda x: sf.convert(ragged(), sf.Masked, fill=x),
    "index": lambda x: ragged()[x],
    "lengths": lambda x: sf.Ragged(np.arange(3), x),
    "lod": lambda x: sf.LoD(np.arange(3), x),
    "start": lambda x: sf.position_ids(ragged(), x),
    "empty": lambda x: sf.reduce_max(ragged(), empty=x),
    "side": lambda x: sf.convert(ragged(), sf.Masked, side=x),
    "trie": sf.Trie,
    "banned": sf.BannedTokens,
    "prefix": sf.ForcedPrefix,
    "phrases": sf.LexicalConstraints,
    "tokens": lambda x: sf.erase(ragged(), x),
}


@pytest.mark.parametrize("make", [itself, twice, mutual])
@pytest.mark.parametrize("use", JUNK.values(), ids=JUNK)
def test_a_list_within_itself_as_an_argument(use, make):
    with pytest.raises((sf.StructureError, sf.ConversionError, TypeError)) as caught:
        use(make())
    assert len(str(caught.value)) < 1000


def nest(depth, leaf=(1, 2)):
    x = list(leaf)
    for _ in range(depth):
        x = [x]
    return x


def unnest(x):
    depth = 0
    while isinstance(x[0], list):
        x, depth = x[0], depth + 1
    return x, depth


@pytest.mark.parametrize("depth", [15, 16, 17, 10_000])
def test_lists_may_be_as_deep_as_they_like(depth):
    given = nest(depth)
    x = sf.LoD.from_nested(given)
    assert len(x.lod) == depth
    assert unnest(x.to_nested()) == ([1, 2], depth)
    assert unnest(sf.with_flatten(lambda items: [item * 3 for item in items])(given)) == ([3, 6], depth)
    assert unnest(sf.convert(given, list, copy=True)) == ([1, 2], depth)


def test_a_list_in_several_places():
    part = [[1, 2], [3]]
    assert sf.LoD.from_nested([part, part]).to_nested() == [part, part]
    assert sf.with_flatten(lambda items: items)([part, part]) == [part, part]
    deep = nest(20, [1])
    assert len(sf.LoD.from_nested([deep, deep]).lod) == 21


@pytest.mark.parametrize("leaf", [1, "x"])
@pytest.mark.parametrize("walk", ["from_nested", "copy", "with_flatten", "lengths"])
def test_few_lists_that_stand_for_too_many(walk, leaf):
    x = [leaf]
    for _ in range(60):
        x = [x, x]
    with pytest.raises(errors.OutOfMemory, match="3458764513820540926 items"):
        WALKS[walk](x)
    with pytest.raises((errors.OutOfMemory, sf.StructureError)):
        sf.LoD.from_nested(x, levels=2)


def test_wide_lists_are_counted_before_they_are_walked():
    x = [1]
    for _ in range(14):
        x = [x] * 1000
    for walk in ("from_nested", "with_flatten", "copy"):
        with pytest.raises(errors.OutOfMemory):
            WALKS[walk](x)


def test_named_tuples_and_subclasses_come_back():
    class Own(list):
        pass

    x = Own([[1, 2], (), (3,)])
    y = sf.with_flatten(lambda items: [-item for item in items])(x)
    assert y == [[-1, -2], (), (-3,)]
    assert [type(part) for part in (y, *y)] == [Own, list, tuple, tuple]


@pytest.mark.parametrize(
    ("x", "said"),
    [
        ([[1], 2], "element 1 is 2"),
        ([[1], [[2]]], "some are 2 deep"),
        ([[[[1]]], [[2]]], "some are 3 deep"),
        ([[], [[1]], [[], 3]], "element 1 is 3"),
    ],
)
def test_items_that_are_not_equally_deep(x, said):
    with pytest.raises(sf.StructureError, match=said):
        sf.with_flatten(lambda items: items)(x)


@pytest.mark.parametrize("x", [[], [[]], [[], [[]]], [[[], []], [[]]], [[], [[1]], [[], [2, 3]]]])
def test_empty_lists_come_back_as_they_were(x):
    assert sf.with_flatten(lambda items: items)(x) == x


# ------------------------------------------------------------------------------------- counts without the things


def test_levels_that_are_only_asked_for():
    for given in ([], [[]], [[1]]):
        for levels in (2**20 + 1, 2**62, 2**80, 10**5000):
            with pytest.raises(sf.ConversionError, match="levels"):
                sf.LoD.from_nested(given, levels=levels)
    x = sf.LoD.from_nested([[]], levels=1000)
    assert [offsets.tolist() for offsets in x.lod] == [[0, 0]] + [[0]] * 999


def nothing(*shape, dtype="i8"):
    return np.empty((*shape, 0), dtype)


COUNTS = {
    "trie": lambda: sf.Trie(nothing(MANY)),
    "allowed": lambda: sf.AllowedTokens(nothing(MANY)),
    "banned": lambda: sf.BannedTokens(nothing(MANY)),
    "levels": lambda: sf.LoD(np.arange(3), nothing(MANY)),
    "levels of lengths": lambda: sf.LoD.from_lengths(np.arange(3), nothing(MANY)),
    "items": lambda: sf.with_flatten(lambda items: items)(sf.Ragged(nothing(MANY), [MANY])),
    "leaves": lambda: sf.convert(sf.Ragged(np.empty(MANY, "V0"), [MANY]), list),
    "steps": lambda: sf.TensorArray.unpack(sf.Ragged(nothing(MANY), [MANY])),
    "columns": lambda: sf.convert(sf.Ragged(nothing(MANY), [MANY]), sf.Padded),
    "mask of Masked": lambda: sf.Masked(nothing(3, MANY), [1, 2, 3]).mask,
    "mask": lambda: sf.mask([1, 2], width=MANY),
    "block_mask": lambda: sf.block_mask(sf.Ragged(nothing(MANY), [MANY])),
    "block_mask of fewer": lambda: sf.block_mask(sf.Ragged(nothing(2**22), [2**22])),
    "position_ids": lambda: sf.position_ids(sf.Ragged(nothing(MANY), [MANY])),
    "segment_ids": lambda: sf.segment_ids(sf.Ragged(nothing(MANY), [MANY])),
    "window": lambda: sf.window(ragged(), MANY, 0),
    "ngrams": lambda: sf.ngrams(ragged(), MANY),
    "repeat": lambda: sf.repeat(ragged(), MANY),
    "repeat of rows": lambda: sf.repeat(np.arange(3), MANY),
    "expand": lambda: sf.expand(ragged(), sf.Ragged(nothing(MANY), [MANY, 0, 0])),
    "expand_as": lambda: sf.expand_as(np.arange(3), sf.Ragged(nothing(MANY), [MANY, 0, 0])),
    "width": lambda: sf.convert(ragged(), sf.Masked, width=MANY),
}


@pytest.mark.parametrize("use", COUNTS.values(), ids=COUNTS)
def test_counts_that_no_memory_can_hold(use):
    with pytest.raises(sf.ConversionError) as caught:
        use()
    assert isinstance(caught.value, MemoryError)
    assert "memory" in str(caught.value)


PAST_INT64 = {
    "mask past int64": lambda: sf.mask([1, 2], width=2**65),
    "window past int64": lambda: sf.window(ragged(), 2**65, 0),
    "ngrams of many digits": lambda: sf.ngrams(ragged(), 10**5000),
    "multiple_of": lambda: sf.convert(ragged(), sf.Padded, multiple_of=2**65),
    "reshape": lambda: sf.reshape(ragged(), 2**65),
    "buckets": lambda: sf.buckets([1, 2], 2**64),
    "pack_bins": lambda: sf.pack_bins([1, 2], 2**64),
    "balance": lambda: sf.balance([1, 2], 2**64),
    "conv": lambda: sf.conv(ragged(), np.ones((3, 1), int), 2**65, 0),
    "groups": lambda: sf.DiverseGroups(2**70, 0.5),
    "n": lambda: sf.NoRepeatNgram(2**65),
    "per_parent": lambda: sf.Prune(per_parent=2**70),
}


@pytest.mark.parametrize("use", PAST_INT64.values(), ids=PAST_INT64)
def test_counts_past_int64(use):
    with pytest.raises(sf.ConversionError, match="must fit int64"):
        use()


def test_rows_without_items_need_no_memory():
    x = sf.Ragged(nothing(MANY), [MANY])
    assert [part.rows for part in x] == [MANY]
    assert sf.convert(x, list)[0].shape == (MANY, 0)
    assert sf.convert(x, sf.List).items[0].shape == (MANY, 0)
    assert sf.convert([x.data], sf.Masked).data.shape == (1, MANY, 0)
    assert sf.shrink(nothing(MANY), ragged(), 0).shape == (2, 0)
    assert sf.repeat(nothing(3), MANY).shape == (3 * MANY, 0)
    assert sf.repeat(x, 3).rows == 3 * MANY
    assert sf.reduce_sum(x).shape == (1, 0)
    assert sf.softmax(sf.Ragged(nothing(MANY, dtype="f4"), [MANY])).rows == MANY


# ------------------------------------------------------------------------------------------ what is remembered


def tables():
    """Every table of the library, by name: dicts, sets and lists of its modules, and those in closures."""
    found = {}
    for name, module in list(sys.modules.items()):
        if module is not None and name.partition(".")[0] == "seqformats":
            for key, value in vars(module).items():
                if isinstance(value, (dict, set, list)) and key not in ("__builtins__", "__annotations__"):
                    found[f"{name}.{key}"] = value
                code = getattr(inspect.unwrap(value), "at_once", None) if callable(value) else None
                for cell in getattr(code[0] if isinstance(code, tuple) else code, "__closure__", None) or ():
                    if isinstance(cell.cell_contents, dict):
                        found[f"{name}.{key} at once"] = cell.cell_contents
    return found


def use(x):
    """What looks at types and dtypes."""
    for kind in (sf.List, sf.Padded, sf.Packed, sf.Masked, sf.LoD):
        sf.convert(sf.convert(x, kind), sf.Ragged)
    for operation in (sf.reduce_sum, sf.reduce_mean, sf.reduce_max, sf.reduce_first, sf.softmax, sf.cumsum, sf.argmax):
        with contextlib.suppress(TypeError):
            operation(x)
    sf.window(x, 1, 0)
    sf.equal(x, x)


def test_what_is_remembered_of_dtypes_is_bounded():
    assert memory_checks.REMEMBERED < 400
    use(ragged())
    before = {name: len(table) for name, table in tables().items()}
    for k in range(1, 401):
        use(sf.Ragged(np.zeros(3, f"U{k}"), [1, 2]))
        use(sf.Ragged(np.zeros(3, [(f"field{k}", "i4")]), [1, 2]))
    grown = {name: len(table) for name, table in tables().items() if len(table) > before.get(name, 0)}
    assert all(count <= memory_checks.REMEMBERED for count in grown.values()), grown
    assert grown, "no table was seen to grow"


def test_what_is_remembered_of_types_is_bounded_and_they_can_go():
    made = []
    before = {name: len(table) for name, table in tables().items()}
    for k in range(400):
        array_kind = type(f"Own{k}", (np.ndarray,), {})
        other = type(f"Other{k}", (), {})
        encoding = type(f"Ragged{k}", (sf.Ragged,), {})
        made += map(weakref.ref, (array_kind, other, encoding))
        sf.convert([np.zeros(3).view(array_kind)], sf.Masked)
        sf.softmax(encoding(np.zeros(3).view(array_kind), [3]))
        for operation in (sf.reduce_sum, sf.lengths, lambda x: sf.convert(x, sf.Ragged), lambda x: ragged()[x]):
            with pytest.raises(TypeError):
                operation(other())
    del array_kind, other, encoding
    gc.collect()
    grown = {name: len(table) for name, table in tables().items() if len(table) > before.get(name, 0)}
    assert all(count <= memory_checks.REMEMBERED for count in grown.values()), grown
    left = sum(kind() is not None for kind in made)
    assert left <= 3 * memory_checks.REMEMBERED < len(made) / 2


def test_what_is_remembered_of_ends_is_bounded():
    trie = sf.Trie([[3, 1], [2]])
    for end in range(4, 404):
        sf.AllowedTokens(trie).begin(1, [np.array([end])])
    assert len(trie._ended) <= memory_checks.REMEMBERED


def test_what_is_in_use_comes_back():
    table = {}
    for k in range(1000):
        assert memory_checks.remember(table, k, -k) == -k
        assert table[k] == -k
        assert len(table) <= memory_checks.REMEMBERED


# ------------------------------------------------------------------------------------------------------- messages


def test_a_message_repeats_the_beginning_of_what_was_given():
    assert errors.quote("right") == "'right'"
    assert errors.quote(10**5000) == "an int of 16610 bits"
    assert errors.quote(itself()) == "[[[[[[[...]]]]]]]"
    assert errors.quote(np.array([None, {}])) == "an array of shape (2,) of objects"
    assert len(errors.quote(list(range(10**6)))) < 100
    assert len(errors.quote("x" * 10**6)) < 200

    class Silent:
        def __repr__(self):
            raise KeyError("no words")

    assert "Silent" in errors.quote(Silent())


def test_other_errors_of_a_library_stay_as_they_are():
    class Lost(RuntimeError):
        pass

    def make(shape, dtype, like):
        raise Lost("the device is gone")

    with pytest.raises(Lost, match="gone"):
        memory_checks.allocate(make, (3, 0), None, None)
    with pytest.raises(errors.OutOfMemory):
        memory_checks.allocate(make, (2**62, 0), None, None)
