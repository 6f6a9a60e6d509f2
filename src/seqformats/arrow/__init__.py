"""Columns of Apache Arrow: lists of items in contiguous memory, in and out."""

from .columns import from_arrow as from_arrow
from .columns import from_table as from_table
from .writing import to_arrow as to_arrow
from .writing import to_capsules as to_capsules
