"""Models that use encodings under `torch.export`: saved, loaded here and in a fresh process, run on other shapes."""

import subprocess
import sys

import pytest

import seqformats as sf

pytestmark = pytest.mark.peers

FRESH = """
import sys
import seqformats
import torch

model = torch.export.load(sys.argv[1]).module()
data, lengths, wanted = torch.load(sys.argv[2])
torch.testing.assert_close(model(data, lengths), wanted)
"""


def exported():
    """A model of tensors, and its program for any number of sequences and items."""
    import torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = torch.nn.Embedding(50, 4)
            self.linear = torch.nn.Linear(4, 3)
            self.project = sf.with_array(self.linear)
            self.shifted = sf.with_masked(lambda m: m.data - m.data.mean(1, keepdim=True))

        def forward(self, ids, lengths):
            x = sf.Ragged(self.emb(ids), lengths)
            return sf.reduce_mean(sf.softmax(self.project(self.shifted(x))))

    model = Model().eval()
    of = torch.export.Dim
    shapes = ({0: of("rows")}, {0: of("n")})
    example = torch.arange(9), torch.tensor([4, 0, 5])
    return model, torch.export.export(model, example, dynamic_shapes=shapes, strict=True)


@pytest.mark.filterwarnings("ignore")  # PyTorch's own, about symbols
def test_saved_and_loaded(tmp_path):
    import torch

    model, program = exported()
    assert "seqformats.call" in str(program.graph)
    torch.export.save(program, tmp_path / "model.pt2")
    again = torch.export.load(tmp_path / "model.pt2").module()
    for lengths in ([1, 2, 0, 7, 3], [2, 2], [30, 1, 1, 1]):
        given = torch.arange(sum(lengths)), torch.tensor(lengths)
        torch.testing.assert_close(again(*given), model(*given))
    torch.save((*given, model(*given).detach()), tmp_path / "given.pt")
    done = subprocess.run(
        [sys.executable, "-c", FRESH, tmp_path / "model.pt2", tmp_path / "given.pt"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_lengths_that_do_not_fit_are_an_error():
    import torch

    program = exported()[1].module()
    with pytest.raises(sf.StructureError, match="add up to"):
        program(torch.arange(9), torch.tensor([4, 4]))


def test_without_strict_the_error_says_so():
    """The other way of exporting follows no Python, and calls this library with tensors that have no items."""
    import torch

    class Model(torch.nn.Module):
        def forward(self, data, lengths):
            return sf.reduce_sum(sf.Ragged(data, lengths))

    with pytest.raises(TypeError, match="strict=True"):
        torch.export.export(Model(), (torch.zeros(5), torch.tensor([2, 3])), strict=False)
