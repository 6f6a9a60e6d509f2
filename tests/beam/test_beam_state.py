"""What a state shows is that of its step, whenever it is asked for."""

import numpy as np
import pytest
from libraries import on_each_library

import seqformats as sf
from seqformats import arrays

SCORES = np.random.default_rng(3).normal(0, 2, (12, 9)).astype("f4")
NAMES = ("tokens", "source", "parents")


def shown(state):
    """Its arrays, as lists."""
    found = [arrays.to_host(getattr(state, name)).tolist() for name in NAMES]
    return found, state.t, state.moved


def states(up, at_once):
    """All states of a search, asked for in its steps or behind its end."""
    start = up(np.arange(3))
    decoder = sf.BeamDecoder(None, shared=start, start=start, end=[0, 4], beam_size=3, max_new_tokens=5)
    kept = [decoder.state]
    found = [shown(decoder.state)] if at_once else []
    while decoder.active:
        decoder.step(up(np.roll(SCORES, 5 * decoder.state.t, 1)[: decoder._search.live.source.size]))
        kept.append(decoder.state)
        if at_once:
            found.append(shown(decoder.state))
    return kept, found or [shown(state) for state in kept]


def check(up, kind):
    kept, found = states(up, at_once=False)
    assert found == states(np.asarray, at_once=True)[1]
    assert len(found) == 6
    assert {moved for _, _, moved in found} == {False, True}
    for state in kept:
        for name in NAMES:
            array = getattr(state, name)
            assert type(array) is kind
            again = getattr(state, name)
            assert again.base is array.base if kind is np.ndarray else again is array, "made once"


def test_arrays_of_numpy():
    check(np.asarray, np.ndarray)


@pytest.mark.peers
def test_tensors():
    torch = pytest.importorskip("torch")
    check(torch.from_numpy, torch.Tensor)


@pytest.mark.peers
def test_writing_into_a_tensor_changes_no_search():
    torch = pytest.importorskip("torch")
    found = []
    for written in (False, True):
        start = torch.arange(3)
        decoder = sf.BeamDecoder(None, shared=start, start=start, end=0, beam_size=3, max_new_tokens=4, n_best=3)
        while decoder.active:
            rows = len(decoder.state.tokens)
            for name in NAMES if written else ():
                getattr(decoder.state, name).fill_(7)
            decoder.step(torch.from_numpy(SCORES[:rows]))
        found.append(decoder.result().tokens.to_nested())
    assert found[0] == found[1]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.passes("compiled", "interpreted", reason="Numba checks no bounds on CUDA")
@on_each_library
def test_arrays_of_a_gpu(gpu):
    gpu.need()
    check(gpu.up, type(gpu.up(SCORES)))


@pytest.mark.peers
def test_nothing_asks_for_a_gradient():
    torch = pytest.importorskip("torch")
    memory, scores = torch.zeros(3, 2), torch.from_numpy(SCORES[:3])
    decoder = sf.BeamDecoder(memory, start=torch.arange(3), end=0, beam_size=3, max_new_tokens=4)
    for given in ((scores.clone().requires_grad_(), memory), (scores, memory.clone().requires_grad_())):
        with pytest.raises(TypeError, match=r"beam search has no gradient; give scores\.detach"):
            decoder.step(*given)
        with torch.no_grad():
            sf.BeamDecoder(memory, start=torch.arange(3), end=0, beam_size=3, max_new_tokens=4).step(*given)
    decoder.step(scores, memory)
    assert decoder.state.t == 1
