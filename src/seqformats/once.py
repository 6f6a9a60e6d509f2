"""Attributes that are calculated when they are first asked for, without a lock.

`functools.cached_property` of Python 3.11 has one for all objects of a class: where another thread holds it in the
moment of a fork, the child waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


class once(Generic[Value]):
    """A property that is kept; of two threads that ask at the same time each may calculate it.

    Examples
    --------
    >>> class Circle:
    ...     @once
    ...     def area(self):
    ...         print("calculated")
    ...         return 3.14
    >>> circle = Circle()
    >>> circle.area, circle.area
    calculated
    (3.14, 3.14)
    """

    def __init__(self, function: Callable[[Any], Value]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, x: None, owner: type) -> once[Value]: ...
    @overload
    def __get__(self, x: object, owner: type) -> Value: ...
    def __get__(self, x: object | None, owner: type) -> once[Value] | Value:
        if x is None:
            return self
        found: once[Value] | Value = vars(x).setdefault(self.name, self.function(x))
        return found
