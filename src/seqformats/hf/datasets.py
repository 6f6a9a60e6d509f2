"""Functions over batches, for `Dataset.map`."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ..arrow.job import Job, column_of, job_of
from ..errors import KIND
from .columns import is_table


class _ByName(ModuleType):
    """A module that pickles as its name.

    `datasets` hashes functions, and the modules that they name, with dill, which writes all of a module that is not in
    site-packages, as that of an editable installation is, and fails.
    """

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        return importlib.import_module, (self.__name__,)


sys.modules[__name__.partition(".")[0]].__class__ = _ByName


@dataclass(frozen=True)
class ArrowMap:
    """Function of tables of Arrow that `arrow_map` gives; it pickles as `fn` does.

    Examples
    --------
    >>> import seqformats as sf
    >>> sf.hf.arrow_map(len, "input_ids").job.columns
    ('input_ids',)
    """

    job: Job

    def __call__(self, table: Any, *more: Any, **options: Any) -> Any:
        """The table that `Dataset.map` writes; None where `fn` gives None."""
        if not is_table(table):
            raise KIND(
                f"arrow_map is for tables of Arrow, not {type(table).__name__}; call "
                'dataset.with_format("arrow").map(..., batched=True), without input_columns'
            )
        made = self.job.call(self.job.given(table), table.num_rows, *more, **options)
        return None if made is None else self.job.beside(table, made, column_of)


def arrow_map(
    fn: Callable[..., Any],
    columns: str | Sequence[str],
    *,
    keep: bool | Sequence[str] = True,
    missing: str = "raise",
    items: object = "raise",
) -> ArrowMap:
    """A function of batches for ``dataset.with_format("arrow").map(..., batched=True)``.

    Parameters
    ----------
    fn : callable
        Gets one argument a column: columns of lists as `Ragged` or `LoD`, columns of numbers as arrays ``(n,)``; and
        after them what ``with_indices``, ``with_rank`` and ``fn_kwargs`` of `map` add.  Gives a dict or a named tuple
        of new columns, each a batch, an array ``(n, ...)``, a list or a column of Arrow; or, with one column, what is
        to stand in its place.
    columns : str or several
        What `fn` gets, by name.
    keep : bool or names
        The columns of the dataset that stay beside what is new, True for all of them.  With False the number of rows
        may change.
    missing, items
        What null sequences and null items become, see `from_arrow`.

    Returns
    -------
    ArrowMap
        A function of a table of Arrow that gives a table.

    Raises
    ------
    TypeError
        For what is no function, and other arguments of the wrong type.

    See Also
    --------
    seqformats.from_arrow : A column as a batch.

    Notes
    -----
    `map` takes the table as it is, and so its ``remove_columns`` does nothing in this format: `keep` says which stay.
    The function is pickled, and hashed for the cache of `map`, as `fn` is.

    Examples
    --------
    >>> import seqformats as sf
    >>> shorten = sf.hf.arrow_map(lambda ids: {"start": sf.truncate(ids, 2), "length": sf.lengths(ids)}, "input_ids")
    >>> shorten.job.keep
    True
    """
    return ArrowMap(
        dataclasses.replace(job_of(fn, columns, keep, missing=missing, items=items), large=False)
    )  # which datasets calls List
