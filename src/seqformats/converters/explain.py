"""The tables as text."""

from __future__ import annotations

from .. import registry
from ..errors import KIND, quote
from ..formats import rows
from ..formats.bare import is_list, read_column
from ..formats.pairs import is_encoding
from ..launch.kernel import check_device
from .layouts import MOVERS, steps_to_list


def explain(From: object, To: object, device: str = "cpu") -> str:
    """The route from one encoding to another on a kind of device, as text.

    Parameters
    ----------
    From, To : types
        Or batches, bare lists among them, whose types are meant.
    device : kind of device
        "cpu", "cuda", ...

    Returns
    -------
    str
        A line for each step: whether it shares memory, or by which kernel rows are moved, and its options.

    Raises
    ------
    TypeError
        For what is neither.
    ConversionError
        Where there is no route.
    DeviceError
        For a device without kernels.

    Examples
    --------
    >>> import seqformats as sf
    >>> print(sf.explain(sf.LoD, sf.Padded))
    LoD -> Padded on cpu: 2 steps
      LoD -> Ragged   shares memory   options: level
      Ragged -> Padded   one move by words_to_steps (rows of 1, 2, 4, 8 bytes) or blocks_to_steps   options: fill, \
width, multiple_of, truncate
    """
    From, To = _kind_of(From), _kind_of(To)
    if not isinstance(device, str):
        raise KIND(f'device must be a name such as "cpu" or "cuda", not {quote(device)}')
    name = f"{registry.label(From)} -> {registry.label(To)} on {device}"
    if From is To:
        return f"{name}: nothing to do"
    steps = registry.route(From, To, device).steps
    lines = [f"{name}: {len(steps)} step{'s' * (len(steps) > 1)}"]
    for step in steps:
        how = "shares memory" if step.shares else f"one move{_kernel_of(step, device)}"
        lines.append(
            f"  {registry.label(step.source)} -> {registry.label(step.target)}   {how}   "
            f"options: {', '.join(step.options) or 'none'}"
        )
    return "\n".join(lines)


def _kind_of(given: object) -> type:
    """A type, or that of a batch; TypeError for anything else."""
    if isinstance(given, type):
        return given
    if is_list(given):
        return list
    given = read_column(given)
    if is_encoding(given):
        return type(given)
    raise KIND(f"explain takes types such as Ragged, or batches, not {quote(given)}")


def _kernel_of(step: registry.Conversion, device: str) -> str:
    """The kernel of a step that is this library's own; DeviceError where the device has no kernels."""
    if step.function not in (*MOVERS, steps_to_list):
        return ""
    check_device(device)
    source, target = step.source._by_steps, step.target._by_steps  # type: ignore[attr-defined]
    if source is target:
        return f" by {rows.copy_blocks.name}"
    if target:
        words, blocks = rows.words_to_steps.name, rows.blocks_to_steps.name
    else:
        words, blocks = rows.steps_to_words.name, rows.steps_to_blocks.name
    if device != "cpu":
        return f" by {blocks}"
    return f" by {words} (rows of {', '.join(map(str, rows.WORD_SIZES))} bytes) or {blocks}"
