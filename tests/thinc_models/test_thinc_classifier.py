"""A classifier learns the same with these layers, with these Ops under Thinc's layers, and with Thinc alone."""

import numpy as np
import pytest

pytestmark = [pytest.mark.peers, pytest.mark.bridges]
api = pytest.importorskip("thinc.api")

import corpus_of_docs as docs  # noqa: E402

import seqformats as sf  # noqa: E402

STEPS = 200


@pytest.fixture(scope="module")
def corpus():
    return docs.texts(400)


@pytest.fixture(scope="module")
def of_thinc(corpus):
    return docs.losses(docs.classifier(api), *corpus, STEPS)


def test_layers_learn_what_thincs_learn(corpus, of_thinc):
    mine = docs.losses(docs.classifier(sf.thinc), *corpus, STEPS)
    assert np.mean(mine[-20:]) < 0.9 * np.mean(mine[:20])
    assert np.abs(np.subtract(mine, of_thinc)).max() < 1e-5


def test_ops_under_thincs_layers(corpus, of_thinc):
    with sf.thinc.use():
        model = docs.classifier(api)
    assert {type(node.ops) for node in model.walk()} == {sf.thinc.SequenceOps}
    assert np.abs(np.subtract(docs.losses(model, *corpus, STEPS), of_thinc)).max() < 1e-5
