"""A plugin of pytest: Thinc's own tests find the Ops and the layers of this library where they look for Thinc's."""

import thinc.api
import thinc.backends
import thinc.backends.numpy_ops
import thinc.layers

import seqformats as sf

LAYERS = [
    "expand_window",
    "list2array",
    "list2padded",
    "list2ragged",
    "padded2list",
    "ragged2list",
    "reduce_first",
    "reduce_last",
    "reduce_max",
    "reduce_mean",
    "reduce_sum",
    "with_array",
    "with_array2d",
    "with_list",
    "with_padded",
    "with_ragged",
]


class Ops(sf.thinc.SequenceOps):
    """By the name that Thinc's tests ask for."""

    name = "numpy"


thinc.registry.ops("NumpyOps", func=Ops)
for module in (thinc.api, thinc.backends, thinc.backends.numpy_ops):
    module.NumpyOps = Ops
for name in LAYERS:
    ours = getattr(sf.thinc, name)
    thinc.registry.layers(f"{name}.v1", func=ours)
    setattr(thinc.api, name, ours)
    setattr(thinc.layers, name, ours)
thinc.api.with_flatten_v2 = thinc.layers.with_flatten_v2 = sf.thinc.with_flatten
thinc.registry.layers("with_flatten.v2", func=sf.thinc.with_flatten)
thinc.api.ParametricAttention = thinc.layers.ParametricAttention = sf.thinc.ParametricAttention
thinc.registry.layers("ParametricAttention.v1", func=sf.thinc.ParametricAttention)
thinc.api.set_current_ops(Ops())


def pytest_report_header():
    """What stands in whose place."""
    return f"Ops: {type(thinc.api.get_current_ops()).__mro__[1].__name__}, {len(LAYERS) + 2} layers of seqformats"
