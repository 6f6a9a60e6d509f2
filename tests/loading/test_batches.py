"""`sf.batches` over rows of Python and NumPy: what comes together, in which order, and how it ends."""

import contextlib
import doctest
import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf
from seqformats.loading import batching, read_ahead

HANGS = 120  # seconds, far above what anything here takes
TARGETS = [sf.Masked, sf.Padded, sf.Ragged, sf.Packed, sf.LoD, sf.List, list]
PADDED = (sf.Masked, sf.Padded)


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    for thread in ours():
        thread.join(HANGS)
    assert ours() == []


def ours():
    return [thread for thread in threading.enumerate() if thread.name == read_ahead.THREAD_NAME]


def numbered(lengths):
    """Sequences whose items say which row and which place they are."""
    return [[1000 * i + t for t in range(length)] for i, length in enumerate(lengths)]


def lists(batch):
    return sf.convert(batch, list)


def all_of(batches):
    return [lists(batch) for batch in batches]


def size(batch, padded, multiple_of=1):
    lengths = [len(row) for row in batch]
    return -(-max(lengths) // multiple_of) * multiple_of * len(batch) if padded else sum(lengths)


# ------------------------------------------------------------------------------------------- what comes together

lengths_of_rows = st.lists(st.integers(0, 12), max_size=60)


@given(
    lengths_of_rows,
    st.sampled_from(TARGETS),
    st.integers(12, 60),
    st.sampled_from([None, 0, 1, 3, 10, 1000]),
    st.sampled_from([None, 0, 7]),
    st.sampled_from([None, 1, 4]),
)
def test_every_row_comes_once_in_a_batch_that_is_not_too_large(lengths, to, max_items, window, seed, most):
    rows = numbered(lengths)
    options = {"max_items": max_items, "shuffle_buffer": window, "seed": seed, "max_sequences": most}
    found = all_of(sf.batches(rows, to=to, prefetch=0, **options))
    assert sorted(row for batch in found for row in batch) == sorted(rows)
    assert all(size(batch, to in PADDED) <= max_items and batch for batch in found)
    assert all(len(batch) <= (most or len(batch)) for batch in found)
    if window == 0:
        assert [row for batch in found for row in batch] == rows
        for one, other in pairwise(found):  # each is as large as it can be
            assert size([*one, other[0]], to in PADDED) > max_items or len(one) == most


@given(lengths_of_rows, st.sampled_from([0, 5, None]), st.sampled_from([None, 3]), st.lists(st.integers(1, 9)))
def test_the_parts_of_a_source_and_threads_change_nothing(lengths, window, seed, cuts):
    rows = numbered(lengths)
    ends = [0, *sorted({cut for cut in np.cumsum(cuts) if cut < len(rows)}), len(rows)]
    parts = [sf.LoD.from_nested(rows[a:b], np.int64, 1) for a, b in pairwise(ends)]
    options = {"max_items": 40, "shuffle_buffer": window, "seed": seed}
    expected = all_of(sf.batches(rows, prefetch=0, **options))
    whole = sf.Ragged(np.array([item for row in rows for item in row], np.int64), lengths)
    for source in (rows, tuple(rows), whole, parts, iter(parts), sf.convert(whole, sf.Padded)):
        for prefetch in (0, 1, 5):
            once = iter(rows) if source is not parts and not hasattr(source, "__len__") else source
            assert all_of(sf.batches(once, prefetch=prefetch, **options)) == expected


def test_similar_lengths_come_together():
    lengths = np.random.default_rng(0).integers(1, 100, 2000)
    x = sf.Ragged(np.zeros(lengths.sum()), lengths)
    filled = [batch.rows / batch.data.size for batch in sf.batches(x, max_items=500, seed=1)]
    unsorted = [batch.rows / batch.data.size for batch in sf.batches(x, max_items=500, shuffle_buffer=0)]
    assert np.mean(filled) > 0.9 > 0.7 > np.mean(unsorted)


def test_whole_batches_in_every_window():
    """What is left of a window goes on to the next one."""
    x = sf.Ragged(np.zeros(1000), np.ones(1000, np.int64))
    counts = [len(batch) for batch in sf.batches(x, max_items=30, shuffle_buffer=70)]
    assert counts == [30] * 33 + [10]


def test_a_seed_shuffles_each_iteration_anew():
    x = sf.Ragged(np.arange(300), np.ones(300, np.int64))
    found = sf.batches(x, max_items=10, seed=5)
    first, second = all_of(found), all_of(found)
    assert first != second
    assert sorted(row for batch in first for row in batch) == sorted(row for batch in second for row in batch)
    again = sf.batches(x, max_items=10, seed=5)
    assert all_of(again) == first
    again.set_epoch(0)
    assert all_of(again) == first
    assert all_of(again) == second
    assert all_of(sf.batches(x, max_items=10, seed=6)) != first
    unshuffled = sf.batches(x, max_items=10)
    assert all_of(unshuffled) == all_of(unshuffled)


def test_the_order_of_a_seed_is_kept_across_versions():
    x = sf.Ragged(np.arange(12), np.ones(12, np.int64))
    assert all_of(sf.batches(x, max_items=4, seed=1, prefetch=0)) == ORDER


ORDER = [[[2], [0], [1], [11]], [[4], [5], [6], [7]], [[8], [10], [3], [9]]]


@pytest.mark.parametrize("to", [sf.Masked, sf.Ragged])
def test_the_last_batch_may_be_left_out(to):
    x = sf.Ragged(np.zeros(50), np.full(25, 2))
    for n, left in ((25, 0), (24, 4), (20, 0)):
        found = [len(batch) for batch in sf.batches(x[:n], max_items=10, to=to, drop_last=True)]
        assert found == [5] * (n // 5), (n, left)
    assert list(sf.batches(x[:3], max_items=10, to=to, drop_last=True)) == []
    kept = [len(batch) for batch in sf.batches(x[:6], max_items=100, max_sequences=3, to=to, drop_last=True)]
    assert kept == [3, 3]


def test_no_rows():
    for source in (
        [],
        iter(()),
        sf.Ragged(np.zeros(0), []),
        {"a": sf.Ragged(np.zeros(0), [])},
        [sf.Ragged(np.zeros(1), [1])[:0]],
    ):
        assert list(sf.batches(source, max_items=3)) == []


def test_rows_without_items():
    (batch,) = sf.batches([[], [], []], max_items=1)
    assert batch.data.shape == (3, 0)
    found = all_of(sf.batches([[], [1], [], [2, 3], []], max_items=2, shuffle_buffer=0))
    assert found == [[[], [1]], [[]], [[2, 3]], [[]]]


def test_widths_count():
    rows = numbered([3, 1, 5])
    options = {"shuffle_buffer": 0, "prefetch": 0}
    assert [len(batch) for batch in sf.batches(rows, max_items=16, multiple_of=8, **options)] == [2, 1]
    assert [len(batch) for batch in sf.batches(rows, max_items=15, width=5, **options)] == [3]
    assert [len(batch) for batch in sf.batches(rows, max_items=14, width=5, **options)] == [2, 1]
    assert [b.data.shape for b in sf.batches(rows, max_items=6, width=2, truncate=True, **options)] == [(3, 2)]
    with pytest.raises(sf.StructureError, match=r"row 0 has 3 items, more than width=2, without truncate"):
        list(sf.batches(rows, max_items=6, width=2, **options))
    with pytest.raises(sf.StructureError, match=r"row 2 has 5 items, padded to 8, more than max_items=7"):
        list(sf.batches(rows, max_items=7, multiple_of=4, **options))


def test_rows_that_are_too_long():
    rows = numbered([3, 9, 1, 30])
    with pytest.raises(sf.StructureError, match=r'row 1 has 9 items, more than max_items=8; too_long="drop"'):
        list(sf.batches(rows, max_items=8))
    assert all_of(sf.batches(rows, max_items=8, too_long="drop")) == [[rows[0], rows[2]]]


def test_padding_counts_or_not():
    rows = numbered([1, 5])
    assert len(list(sf.batches(rows, max_items=6))) == 2
    assert len(list(sf.batches(rows, max_items=6, padded=False))) == 1
    assert len(list(sf.batches(rows, max_items=6, to=sf.Ragged))) == 1
    assert len(list(sf.batches(rows, max_items=6, to=sf.Ragged, padded=True))) == 2


# ------------------------------------------------------------------------------------------------- kinds of rows


def test_records_with_names():
    rows = [{"ids": [k] * k, "label": k, "text": "x" * k, "scores": np.ones((k, 2), np.float32)} for k in range(4)]
    (batch,) = sf.batches(iter(rows), max_items=100, shuffle_buffer=0, fill={"ids": -1})
    assert list(batch) == ["ids", "label", "text", "scores"]
    assert batch["ids"].data.tolist() == [[-1, -1, -1], [1, -1, -1], [2, 2, -1], [3, 3, 3]]
    assert batch["label"].tolist() == [0, 1, 2, 3]
    assert batch["text"].tolist() == ["", "x", "xx", "xxx"]
    assert batch["scores"].data.shape == (4, 3, 2)
    assert batch["scores"].dtype == np.float32


def test_chosen_columns():
    rows = [{"a": [1], "b": [1, 2], "c": 3}]
    (batch,) = sf.batches(rows, max_items=9, columns=["b", "c"])
    assert list(batch) == ["b", "c"]
    (batch,) = sf.batches(rows, max_items=9, columns="b")
    assert lists(batch) == [[1, 2]]
    (batch,) = sf.batches(rows, max_items=2, by="b")
    assert list(batch) == ["a", "b", "c"]
    with pytest.raises(sf.StructureError, match=r"column 'b', row 0 has 2 items, more than max_items=1"):
        list(sf.batches(rows, max_items=1, by="b"))


def test_records_without_names():
    rows = [(np.arange(k), k) for k in (2, 1)]
    (batch,) = sf.batches(rows, max_items=9)
    assert isinstance(batch, tuple)
    assert lists(batch[0]) == [[0, 1], [0]]
    assert batch[1].tolist() == [2, 1]
    (batch,) = sf.batches(rows, max_items=9, columns=[0])
    assert len(batch) == 1


def test_tuples_of_numbers_are_sequences():
    (batch,) = sf.batches([(1, 2), (3,)], max_items=9)
    assert lists(batch) == [[1, 2], [3]]


def test_strings_are_bytes_where_they_decide():
    rows = [{"text": "ab"}, {"text": "é"}]
    for options in ({"columns": ["text"]}, {"by": "text"}):
        (batch,) = sf.batches(rows, max_items=9, to=sf.Ragged, **options)
        assert batch["text"].data.tobytes() == "abé".encode()
    (batch,) = sf.batches([b"ab", "c"], max_items=9, to=sf.Ragged)
    assert batch.data.tobytes() == b"abc"
    with pytest.raises(sf.StructureError, match="no column holds sequences"):
        list(sf.batches(rows, max_items=9))


def test_rows_of_more_levels():
    documents = [[[1, 2], [3]], [], [[4]]]
    (batch,) = sf.batches(documents, max_items=9, to=sf.LoD, shuffle_buffer=0)
    assert batch.to_nested() == documents
    (batch,) = sf.batches(documents, max_items=9, shuffle_buffer=0)
    assert lists(batch) == [[1, 2, 3], [], [4]]
    found = list(sf.batches([[[1, 2], [3]], [[]], [[], [4]]], max_items=3, to=list, shuffle_buffer=0))
    assert found == [[[[1, 2], [3]], [[]]], [[[], [4]]]]


def test_encodings_and_records_of_them():
    x, labels = sf.Ragged(np.arange(6), [1, 2, 3]), np.array([7, 8, 9])
    (batch,) = sf.batches({"x": x, "label": labels, "more": [[1], [], [2]]}, max_items=9)
    assert batch["label"].tolist() == [9, 8, 7]
    assert lists(batch["more"]) == [[2], [], [1]]
    (batch,) = sf.batches([{"x": x, "label": labels}] * 2, max_items=99)
    assert len(batch["x"]) == len(batch["label"]) == 6
    (batch,) = sf.batches([(x, labels)], max_items=99)
    assert batch[1].tolist() == [9, 8, 7]
    documents = sf.LoD(np.arange(5), [[0, 2, 3], [0, 2, 3, 5]])
    (batch,) = sf.batches(documents, max_items=99, to=sf.LoD, shuffle_buffer=0)
    assert sf.equal(batch, documents)


def test_dtypes_that_meet():
    parts = [sf.Ragged(np.zeros(0), [0]), sf.Ragged(np.array([1], "i8"), [1]), sf.Ragged(np.array([2], "i4"), [1])]
    (batch,) = sf.batches(parts, max_items=9)
    assert batch.dtype == np.int64
    assert lists(batch) == [[1], [2], []]
    with pytest.raises(sf.StructureError, match=r"row 1: the items are float64, but those before are int64"):
        list(sf.batches([parts[1], sf.Ragged(np.array([0.5]), [1])], max_items=9))


def test_options_of_the_target():
    (batch,) = sf.batches([[1], [2, 3]], max_items=9, side="left", fill=-1, shuffle_buffer=0)
    assert batch.data.tolist() == [[-1, 1], [2, 3]]
    for to in TARGETS:
        (batch,) = sf.batches([[1], [2, 3]], max_items=9, to=to)
        assert isinstance(batch, to)


# --------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (None, r"row 2: it is None"),
        (3, r"row 2: it is 3"),
        ([1, "a"], r"row 2: "),
        ([[1], 2], r"row 2: "),
        ([0.5], r"row 2: the items are float64, but those before are int64"),
        ({"ids": [1]}, r"row 2: records of 'ids', but those before are sequences"),
        (([1], 2), r"row 2: records of 0, 1"),
    ],
)
@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_row_that_is_none_is_named(bad, said, prefetch):
    rows = [[1], [2, 3], bad, [4], [5]]
    if bad == [0.5]:  # among numbers of Python floats are at home
        rows = [sf.Ragged(np.array([1, 2]), [1, 1]), bad]
    with pytest.raises(sf.StructureError, match=said):
        list(sf.batches(iter(rows), max_items=9, prefetch=prefetch))


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"ids": [1]}, r"row 1 has no column 'label', but row 0 has"),
        ({"ids": None, "label": 1}, r"column 'ids', row 1: it is None"),
        ({"ids": [1], "label": [2]}, r"column 'label', row 1 is \[2\]"),
        ({"ids": [1], "label": None}, r"column 'label', row 1 is None"),
        ({"ids": "text", "label": 1}, r"column 'ids', row"),
    ],
)
def test_a_record_that_does_not_fit_is_named(bad, said):
    good = {"ids": [1, 2], "label": 3}
    with pytest.raises(sf.StructureError, match=said):
        list(sf.batches([good, bad], max_items=9))


def test_columns_that_are_not_there():
    rows = [{"a": [1]}]
    with pytest.raises(sf.StructureError, match=r"row 0 has no column 'b'; there are 'a'"):
        list(sf.batches(rows, max_items=9, columns=["b"]))
    with pytest.raises(sf.StructureError, match=r"no column 'b' for by=; there are 'a'"):
        list(sf.batches(rows, max_items=9, by="b"))
    with pytest.raises(sf.StructureError, match="without names"):
        list(sf.batches([[1]], max_items=9, columns=["b"]))
    with pytest.raises(sf.StructureError, match="as many rows"):
        sf.batches({"a": [[1]], "b": [[1], [2]]}, max_items=9)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"max_items": 0}, sf.ConversionError),
        ({"max_items": 2.5}, TypeError),
        ({"prefetch": -1}, sf.ConversionError),
        ({"shuffle_buffer": -1}, sf.ConversionError),
        ({"seed": -1}, sf.ConversionError),
        ({"seed": "a"}, TypeError),
        ({"drop_last": 1}, TypeError),
        ({"padded": "yes"}, TypeError),
        ({"max_sequences": 0}, sf.ConversionError),
        ({"too_long": "cut"}, sf.ConversionError),
        ({"to": "Masked"}, TypeError),
        ({"to": dict}, sf.ConversionError),
        ({"side": "up"}, sf.ConversionError),
        ({"max_length": 3}, TypeError),
        ({"to": sf.Ragged, "fill": 3}, TypeError),
        ({"level": 0}, TypeError),
        ({"multiple_of": 0}, sf.ConversionError),
        ({"library": "numby"}, sf.ConversionError),
        ({"to": list, "library": "numpy"}, sf.ConversionError),
        ({"progress": 3}, TypeError),
        ({"missing": "zero"}, sf.ConversionError),
        ({"columns": 3}, TypeError),
        ({"columns": [[1]]}, TypeError),
    ],
)
def test_options_are_checked_before_anything_is_read(options, kind):
    def never():
        pytest.fail("it was read")
        yield

    with pytest.raises(kind):
        sf.batches(never(), **{"max_items": 9, **options})


def test_no_source():
    for source in (3, None, object()):
        with pytest.raises(TypeError, match="batches are made of"):
            sf.batches(source, max_items=3)


ODD = [None, 3, 0.5, "a", b"x", [], [1], [[1]], [[]], (1, 2), {}, {"ids": [1]}, {"ids": None}, object(), {1, 2}, True]
ODD += [np.zeros(3), np.zeros((2, 3)), np.zeros(0), np.array([None]), np.float64(3), range(5), sf.Ragged, Ellipsis]
ODD += [sf.Ragged(np.arange(3), [1, 2]), {"a": sf.Ragged(np.arange(3), [1, 2])}, [True], [1 + 2j], [[[1]]], iter([])]


@given(
    st.lists(st.sampled_from(ODD), max_size=4) | st.sampled_from(ODD), st.sampled_from([0, 1]), st.sampled_from(TARGETS)
)
def test_odd_rows_end_in_an_error_of_the_documented_kinds(source, prefetch, to):
    with contextlib.suppress(sf.SeqFormatError, TypeError, FileNotFoundError, ModuleNotFoundError):
        list(sf.batches(source, max_items=5, prefetch=prefetch, to=to))


def test_a_fill_that_does_not_fit_names_the_column():
    with pytest.raises(sf.ConversionError, match="column 'ids': "):
        list(sf.batches([{"ids": [1]}, {"ids": [1, 2]}], max_items=9, fill=0.5))


class Broken(Exception):
    pass


@pytest.mark.parametrize("prefetch", [0, 1, 8])
def test_an_error_of_the_source_comes_after_the_batches_before_it(prefetch):
    def source():
        for k in range(30):
            yield [k]
        raise Broken("no more")

    found = []
    run = iter(sf.batches(source(), max_items=4, shuffle_buffer=8, prefetch=prefetch))
    with pytest.raises(Broken, match="no more") as caught:
        found.extend(map(lists, run))
    assert len(found) >= 5
    assert "after 30 rows" in caught.value.__notes__[0]


def test_an_error_that_is_no_exception_comes_too():
    def source():
        yield [1]
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        list(sf.batches(source(), max_items=4))


# ------------------------------------------------------------------------------------------------------ threads


def endless(closed=None):
    try:
        k = 0
        while True:
            yield [k, k]
            k += 1
    finally:
        if closed is not None:
            closed.append(threading.current_thread().name)


def test_a_generator_is_read_by_one_thread_alone():
    seen = set()

    def source():
        for k in range(5000):
            seen.add(threading.get_ident())
            yield [k]

    assert sum(len(batch) for batch in sf.batches(source(), max_items=7)) == 5000
    assert len(seen) == 1
    assert threading.get_ident() not in seen


def test_a_generator_is_read_once():
    found = sf.batches(iter([[1]]), max_items=3)
    assert len(list(found)) == 1
    with pytest.raises(sf.StructureError, match="has been read"):
        iter(found)


def test_a_consumer_that_stops_early():
    for batch in sf.batches(endless(), max_items=8):
        assert len(batch) == 4
        break
    del batch
    gc.collect()
    for thread in ours():
        thread.join(HANGS)
    assert ours() == []


@pytest.mark.parametrize("how", ["iterator", "batches", "with", "with batches"])
def test_closing_ends_the_thread(how):
    found = sf.batches(endless(), max_items=8, prefetch=3)
    run = iter(found)
    next(run)
    assert len(ours()) == 1
    if how == "iterator":
        run.close()
    elif how == "batches":
        found.close()
    else:
        with run if how == "with" else found:
            pass
    assert ours() == []
    assert list(run) == []
    run.close()


def test_the_queue_is_bounded():
    """A source is not read ahead of who asks by more than a window and the batches that wait."""
    taken = []

    def source():
        for k in range(10_000):
            taken.append(k)
            yield sf.Ragged(np.array([k]), [1])

    run = iter(sf.batches(source(), max_items=2, shuffle_buffer=10, prefetch=2))
    for _ in range(20):
        next(run)
    run.close()
    assert len(taken) < 100


def test_two_iterations_at_once():
    found = sf.batches(numbered(range(20)), max_items=30)
    one, two = iter(found), iter(found)
    assert [lists(a) == lists(b) for a, b in zip(one, two, strict=True)].count(False) == 0


def test_interrupted_while_it_waits():
    """Ctrl-C while the source does not answer."""
    asked, go = threading.Event(), threading.Event()

    def source():
        yield from (sf.Ragged(np.array([k]), [1]) for k in range(10))
        asked.wait(HANGS)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        go.wait(HANGS)

    run = iter(sf.batches(source(), max_items=2, shuffle_buffer=2))
    patience, read_ahead._PATIENCE = read_ahead._PATIENCE, 0.01
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012
            asked.set()
            list(run)
    finally:
        signal.signal(signal.SIGINT, handler)
        read_ahead._PATIENCE = patience
        go.set()
    assert list(run) == []


def test_no_python_runs_where_an_iterator_is_dropped():
    """Ctrl-C there would be printed and forgotten, and the thread with its source would stay."""
    run, seen = iter(sf.batches(endless(), max_items=2, prefetch=3)), []
    next(run)
    (thread,) = ours()
    sys.setprofile(lambda frame, event, _: event == "call" and seen.append(frame.f_code.co_name))
    del run
    sys.setprofile(None)
    assert seen == []
    thread.join(HANGS)
    assert ours() == []


def test_a_start_that_is_interrupted_keeps_no_source(monkeypatch):
    """`threading` keeps a thread for ever that was interrupted before the system had it."""

    class Rows(list):
        pass

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    rows = Rows([[1], [2]])
    there = weakref.ref(rows)
    for name in ("_start_new_thread", "_start_joinable_thread"):
        monkeypatch.setattr(threading, name, interrupted, raising=False)
    limbo = {**threading._limbo}
    monkeypatch.setattr(threading, "_limbo", KeepsAll(limbo))
    with pytest.raises(KeyboardInterrupt):
        iter(sf.batches(iter(rows), max_items=2))
    del rows
    gc.collect()
    assert len(threading._limbo) == len(limbo) + 1
    assert there() is None


class KeepsAll(dict):
    """What `threading` keeps where an interrupt comes before it can clear up."""

    def __delitem__(self, key):
        pass


def test_a_thread_that_dies():
    run = iter(sf.batches(endless(), max_items=2))
    next(run)
    line = run._made._line
    line.stop()
    line.thread.join(HANGS)
    while not line.items.empty():
        line.items.get()
    line.stopped = False
    with pytest.raises(RuntimeError, match="has died"):
        next(run)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.passes("compiled", reason="a process of its own is the same in every pass")
def test_a_forked_child():
    run_alone("""
        import os
        found = sf.batches([[k] for k in range(100)], max_items=2)
        run = iter(found)
        next(run)
        pid = os.fork()
        if pid == 0:
            try:
                next(run)
            except RuntimeError as error:
                assert "parent" in str(error)
                assert len(list(found)) == 50
                run.close()
                os._exit(0)
            os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0
        assert len(list(run)) == 49
    """)


@pytest.mark.passes("compiled", reason="a process of its own is the same in every pass")
def test_a_program_that_ends_while_batches_are_made():
    run_alone("""
        def endless():
            while True:
                yield [1, 2]
        run = iter(sf.batches(endless(), max_items=4))
        next(run)
    """)


def run_alone(code):
    import textwrap

    code = "import seqformats as sf\n" + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "ignore::DeprecationWarning", "-c", code],
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_bar_where_there_is_one():
    """And silence where tqdm is not installed."""
    with contextlib.suppress(ImportError):
        import tqdm  # noqa: F401

        pytest.skip("tqdm is installed")
    assert len(list(sf.batches([[1]], max_items=3, progress=True))) == 1


def test_the_example():
    assert doctest.testmod(batching).failed == 0
