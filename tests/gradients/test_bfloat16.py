"""Gradients of bfloat16 in a process that does not know it by NumPy's name, which another package brings."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.peers

EVERY = """
import sys

import torch

import seqformats as sf

ones = torch.ones(5, dtype=torch.bfloat16)
calls = [sf.cumsum, sf.softmax, sf.log_softmax, sf.reverse, sf.sort, sf.reduce_sum, sf.reduce_mean, sf.reduce_sqrt]
calls += [sf.reduce_max, sf.reduce_first, sf.reduce_prod, sf.reduce_logsumexp, sf.reduce_var, sf.reduce_std]
calls += [sf.reduce_median, lambda x: sf.reduce_quantile(x, [0.2, 0.7]), lambda x: sf.topk_mean(x, [1, 2])]
calls += [lambda x: sf.window(x, 1, 1), lambda x: sf.reduce_mean(x, weights=ones), lambda x: sf.convert(x, sf.Masked)]
calls += [lambda x: sf.unchunk(sf.chunk(x, 2, 1), "mean"), lambda x: sf.gather(x, [[0, 0, 1], [1, 1]])]
calls += [lambda x: sf.concat([x, x]), lambda x: sf.repeat(x, [2, 3]), lambda x: sf.shift(x, 1)]
calls += [lambda x: sf.expand_as(sf.reduce_sum(x), x), lambda x: sf.flatten_levels(sf.nest(x, [2]))]
for call in calls:
    for _ in range(4):  # until what can be learned has been
        data = torch.arange(1.0, 6.0).to(torch.bfloat16).requires_grad_()
        y = call(sf.Ragged(data, [3, 2]))
        rows = y if isinstance(y, torch.Tensor) else y.data
        (dx,) = torch.autograd.grad(rows, data, torch.ones_like(rows), create_graph=True)
        assert dx.dtype == torch.bfloat16
        wide = data.detach().float().requires_grad_()
        weights = ones
        ones = ones.float()
        y = call(sf.Ragged(wide, [3, 2]))
        ones = weights
        rows = y if isinstance(y, torch.Tensor) else y.data
        (right,) = torch.autograd.grad(rows, wide, torch.ones_like(rows))
        assert torch.allclose(dx.float(), right, rtol=2e-2, atol=2e-2), (dx, right)
        if dx.requires_grad:
            torch.autograd.grad(dx, data, torch.ones_like(dx), allow_unused=True)
assert "ml_dtypes" not in sys.modules
"""


def test_bfloat16_needs_no_other_package():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", EVERY], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
