"""Functions over batches, for `Dataset.map`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..arrow.job import Job, column_of, job_of
from ..errors import KIND
from .columns import is_table


@dataclass(frozen=True)
class ArrowMap:
    """Function of tables of Arrow that `arrow_map` returns; it can be pickled if `fn` can.

    Examples
    --------
    >>> import seqformats as sf
    >>> sf.hf.arrow_map(len, "input_ids").job.columns
    ('input_ids',)
    """

    job: Job

    def __call__(self, table: Any, *more: Any, **options: Any) -> Any:
        """Return the table that `Dataset.map` writes; None if `fn` returns None."""
        if not is_table(table):
            raise KIND(
                f"arrow_map is for tables of Arrow, not {type(table).__name__}; call "
                'dataset.with_format("arrow").map(..., batched=True), without input_columns'
            )
        made = self.job.call(self.job.take_columns(table), table.num_rows, *more, **options)
        return None if made is None else self.job.add_results(table, made, column_of)


def arrow_map(
    fn: Callable[..., Any],
    columns: str | Sequence[str],
    *,
    keep: bool | Sequence[str] = True,
    missing: str = "raise",
    items: object = "raise",
) -> ArrowMap:
    """Make a function of batches for ``dataset.with_format("arrow").map(..., batched=True)``.

    Parameters
    ----------
    fn : callable
        Takes one argument for each column: a column of lists as `Ragged` or `LoD`, a column of numbers as an array
        ``(n,)``; then what ``with_indices``, ``with_rank`` and ``fn_kwargs`` of `map` add.  Returns a dict or a named
        tuple of new columns, each a batch, an array ``(n, ...)``, a list or a column of Arrow.  With one column it may
        return the new values of that column instead.
    columns : str or several
        Names of the columns that `fn` takes.
    keep : bool or names
        Columns of the dataset that the result keeps, True for all of them.  With False the number of rows may change.
    missing, items
        How null sequences and null items are read, see `from_arrow`.

    Returns
    -------
    ArrowMap
        A function that takes a table of Arrow and returns one.

    Raises
    ------
    TypeError
        If `fn` is no function, and for other arguments of the wrong type.

    See Also
    --------
    seqformats.from_arrow : A column as a batch.

    Notes
    -----
    `map` takes the table as it is, and so its ``remove_columns`` does nothing in this format: `keep` says which stay.

    For its cache, `map` hashes `fn` and all that `fn` names.  A function of a module is hashed by its name; one of a
    script or a notebook may name the whole package (``import seqformats as sf``) if that was installed from a wheel.
    With an editable installation, or if `fn` names single functions (``from seqformats import truncate``), put the
    import into `fn`.  Else `map` warns that the function "couldn't be hashed properly", and computes anew each time.

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
