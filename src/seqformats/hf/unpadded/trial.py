"""A trial of a model: a few tokens side by side in a row, beside each sequence alone in the model as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ...errors import TOGETHER, UNPADDED
from ...formats import Ragged
from .refusals import is_encoder_decoder
from .rows import Tensor, hide, is_batch

_LENGTHS = (5, 1, 7)
_CLOSE = {torch.float32: 1e-4, torch.float64: 1e-9}
_CLOSE_OTHER = 0.1


class Trial:
    """Results of a model for each sequence alone, to compare with those over a row."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model, self.rows = model, _tokens(model)
        with _quiet(model), hide():
            self.alone = [_numbers(model(**self._arguments(row[None]))) for row in self.rows]

    def _arguments(self, ids: Tensor) -> dict[str, Any]:
        given = {"input_ids": ids}
        return {**given, "decoder_input_ids": ids} if is_encoder_decoder(self.model) else given

    def check(self) -> None:
        """Run the model over a row; a TypeError where results differ from those of the sequences alone."""
        name, dtype = type(self.model).__name__, next(self.model.parameters()).dtype
        batch = Ragged(torch.cat(self.rows), [len(row) for row in self.rows])
        with _quiet(self.model):
            together = _numbers(self.model(**self._arguments(batch)))
        worst, compared = 0.0, 0
        for key, found in together.items():
            for i, alone in enumerate(self.alone):
                if key not in alone:
                    continue
                own = found[i].data if is_batch(found) else found[i]
                expected = alone[key][0]
                if own.shape != expected.shape:
                    raise UNPADDED(f"{name} gives {key} {tuple(own.shape)} over a row, {tuple(expected.shape)} alone")
                scale = float(expected.abs().max().clamp_min(1e-6))
                worst = max(worst, float((own.float() - expected.float()).abs().max()) / scale)
                compared += 1
        if not compared:
            raise UNPADDED(f"{name} gives no numbers of tokens or sequences that could be compared")
        if not worst <= _CLOSE.get(dtype, _CLOSE_OTHER):
            raise UNPADDED(
                f"{name} cannot run without padding: over one row its results differ by {worst:.1e} (relative) from "
                "those of each sequence alone, so something in it mixes the tokens of a row"
            )


@contextmanager
def _quiet(model: torch.nn.Module) -> Iterator[None]:
    """No dropout, no gradients; and modes as they were behind it."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def _tokens(model: torch.nn.Module) -> list[Tensor]:
    """Token ids of three sequences; special ones, which may change more than their own sequence, are in the first."""
    config = model.config.get_text_config()
    size, padding = config.vocab_size, getattr(config, "pad_token_id", None)
    device = model.get_input_embeddings().weight.device
    if device.type == "meta":
        raise TOGETHER("the model has no weights yet, so it cannot be tried; say check=False")
    generator = torch.Generator().manual_seed(1)
    known = {
        value
        for key, value in config.to_dict().items()
        if key.endswith("token_id") and isinstance(value, int) and 0 <= value < size
    }
    rows = []
    for i, n in enumerate(_LENGTHS):
        ids = torch.randint(min(2, size - 1), size, (n,), generator=generator)
        if padding is not None:
            ids[ids == padding] = (padding + 1) % size
        if i == 0:
            for j, token in enumerate(sorted(known - {padding})[: n - 1]):
                ids[j + 1] = token
        rows.append(ids.to(device))
    return rows


def _numbers(output: Any) -> dict[str, Any]:
    return {key: x for key, x in output.items() if isinstance(x, torch.Tensor) or is_batch(x)}
