"""Templates of what models want around and between sequences of tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, SupportsIndex

import numpy as np

from ..arrays import library_of
from ..converters.convert import rows_of
from ..converters.like import convert_like
from ..errors import COUNTS, EMPTY, KIND, SHAPE, WHOLE, quote
from ..formats import Encoding, Ragged
from ..formats.annotations import Integers
from ..formats.structure import integers, whole
from ..gradients.operation import Operand, operands_of
from .annotations import B
from .calculation import name_of
from .join import Joint, checked_parts


class Templated(NamedTuple, Generic[B]):
    """Results of a `Template`, each laid out as the first batch.

    Examples
    --------
    >>> import seqformats as sf
    >>> made = sf.Template([101, "text", 102])([[7, 8], [9]])
    >>> made.ids, made.special
    ([[101, 7, 8, 102], [101, 9, 102]], [[True, False, False, True], [True, False, True]])
    """

    ids: B
    """The tokens."""
    type_ids: B
    """Of which sequence each token is, int64."""
    special: B
    """Bools: True for what the template has put in."""


@dataclass(frozen=True)
class Template:
    """Put tokens around and between sequences, and number the sequence that each token is of.

    Parameters
    ----------
    parts : a list of integers and names
        An integer is a token that is put into every sequence.  A name stands for a batch, an argument of the call; one
        that is there twice is put in twice.
    types : integers, optional
        The type of each part.  Without it a batch has the number of its name, 0 for the first in the template, and a
        token that of the batch before it, 0 where there is none.

    Attributes
    ----------
    names : tuple of str
        The names in their order.
    added : int
        How many tokens the template adds to each sequence: of a model's `most` tokens, ``most - added`` are left.

    Raises
    ------
    TypeError
        For parts that are neither integers nor names, and, of a call, for batches that are no integers.
    StructureError
        For a template without names, `types` of another number, and, of a call, for batches that do not fit each other.
    ConversionError
        By a call, for a token that the dtype of the batches cannot hold.

    See Also
    --------
    concat : The same without names, for any dtype.

    Notes
    -----
    A template is called with a batch for each name, in their order or by keyword, encodings or bare lists with items of
    shape () or (1,), and gives a `Templated`: `ids`, which are as the first batch in the template is, and laid out
    alike `type_ids` and `special`, which are made of the lengths alone.  Padding is 0 and False in all of them.  It is
    what `TemplateProcessing` of Hugging Face's tokenizers does.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> bert = sf.Template([101, "a", 102, "b", 102])
    >>> x, y = sf.Ragged(np.array([1, 2]), [2, 0]), sf.Ragged(np.array([7, 8]), [1, 1])
    >>> made = bert(x, y)
    >>> made.ids.data
    array([101,   1,   2, 102,   7, 102, 101, 102,   8, 102])
    >>> made.type_ids.data
    array([0, 0, 0, 0, 1, 1, 0, 0, 1, 1])
    >>> bert.added
    3
    """

    parts: tuple[int | str, ...]
    types: tuple[int, ...] | None = None

    if TYPE_CHECKING:  # a dataclass makes this of its fields, but takes more than they hold

        def __init__(self, parts: Sequence[SupportsIndex | str], types: Integers | None = None) -> None: ...

    def __post_init__(self) -> None:
        if not isinstance(self.parts, (list, tuple)):
            raise KIND(f"a template takes a list of integers and names, not {type(self.parts).__name__}")
        parts = tuple([part if isinstance(part, str) else whole(part, "a part that is no name") for part in self.parts])
        object.__setattr__(self, "parts", parts)
        if not self.names:
            raise EMPTY("a template needs at least one name, which stands for a batch")
        if self.types is not None:
            types = tuple(integers(self.types, "types").tolist())
            if len(types) != len(parts):
                raise COUNTS(f"there are {len(types)} types, but {len(parts)} parts")
            object.__setattr__(self, "types", types)

    @property
    def names(self) -> tuple[str, ...]:
        """The names in their order, each once."""
        return tuple(dict.fromkeys([part for part in self.parts if isinstance(part, str)]))

    @property
    def added(self) -> int:
        """The number of tokens that the template adds to each sequence."""
        return sum(not isinstance(part, str) for part in self.parts)

    def __call__(self, /, *batches: B, **named: B) -> Templated[B]:
        """The parts of every sequence one after the other, and what is beside them."""
        meant = self._match_batches(batches, named)
        own = operands_of(*meant.values())
        given = {name: _tokens(name, x, batch) for (name, x), batch in zip(meant.items(), own, strict=True)}
        found = [given[part] if isinstance(part, str) else None for part in self.parts]
        operands = checked_parts("a template", found, self.parts)
        parts = [one.own for one in operands]
        joint = Joint(parts)
        ids = joint.join(parts)
        special = np.array([batch is None for batch in found])
        types = np.array(self._types() if self.types is None else self.types, np.int64)
        made = [ids, joint.label(types, ids), joint.label(special, ids)]
        result = given[self.names[0]].result
        return Templated(*(made if result is None else map(result, made)))

    def _match_batches(self, batches: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """The batches by name; TypeError where they are not those that the template has."""
        names = self.names
        given = dict(zip(names, batches, strict=False))
        twice = [name for name in named if name in given]
        if len(batches) > len(names) or twice or {*given, *named} != {*names}:
            raise KIND(
                f"this template takes the batches {', '.join(map(quote, names))}, "
                f"but was given {len(batches)} by place "
                f"and by name {', '.join(map(quote, named)) or 'none'}"
            )
        return {name: given.get(name, named.get(name)) for name in names}

    def _types(self) -> list[int]:
        """The type of each part, where nobody has said it."""
        numbers, found = {name: number for number, name in enumerate(self.names)}, [0]
        for part in self.parts:
            found.append(numbers.get(part, found[-1]) if isinstance(part, str) else found[-1])
        return found[1:]


def _tokens(name: str, x: object, batch: Operand) -> Operand:
    """The batch that `x` is, of tokens; TypeError for other items."""
    own, dtype = batch.own, name_of(batch.own)
    if math.prod(own.item_shape) != 1 or len(own.item_shape) > 1:
        raise SHAPE(f"tokens are items of shape () or (1,), but those of {quote(name)} have {own.item_shape}")
    if own.rows == 0 and not isinstance(x, Encoding):  # bare lists without items have no dtype
        r = rows_of(own)
        library = library_of(r)
        none = library.zeros(tuple(r.shape), library.dtype("int64"), r)
        return batch._replace(own=convert_like(Ragged._freeze(none, own._structure), own))
    if not dtype.startswith(("int", "uint")):
        raise WHOLE(f"tokens are integers, but the items of {quote(name)} have dtype {dtype}")
    return batch
