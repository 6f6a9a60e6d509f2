"""Types of wrappers for type checkers; nothing here is checked at run time.

A wrapped function takes any batch X where the function itself wants its own, its first argument or the one behind
`self`, and gives back what it was called with; what follows stays as it was.  Of a tuple and of gradients no more is
said than that something comes back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar, Unpack, overload

from ..converters.annotations import Common, Rectangle, Sided
from ..formats import Encoding, Masked, Padded
from ..formats.annotations import Shaped

P = ParamSpec("P")
X = TypeVar("X")
Self_ = TypeVar("Self_")
Seen = TypeVar("Seen", covariant=True)
Rows = TypeVar("Rows", bound=Shaped)
Returned: TypeAlias = Encoding | Shaped | list[Any]
Several: TypeAlias = Callable[..., tuple[Any, ...]]


class Decorator(Protocol[Seen]):
    """A wrapper that has its options and waits for the function."""

    @overload
    def __call__(self, fn: Callable[Concatenate[Seen, P], Returned], /) -> Callable[Concatenate[X, P], X]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[Self_, Seen, P], Returned], /
    ) -> Callable[Concatenate[Self_, X, P], X]: ...
    @overload
    def __call__(self, fn: Several, /) -> Any: ...


class Wrapping(Protocol[Seen]):
    """A wrapper of functions that see a batch as `Seen`."""

    @overload
    def __call__(
        self, fn: Callable[Concatenate[Seen, P], Returned], *, like: Shaped | None = ..., **options: Unpack[Common]
    ) -> Callable[Concatenate[X, P], X]: ...
    @overload
    def __call__(
        self,
        fn: Callable[Concatenate[Self_, Seen, P], Returned],
        *,
        like: Shaped | None = ...,
        **options: Unpack[Common],
    ) -> Callable[Concatenate[Self_, X, P], X]: ...
    @overload
    def __call__(
        self, fn: Several, *, backprop: bool = ..., like: Shaped | None = ..., **options: Unpack[Common]
    ) -> Any: ...
    @overload
    def __call__(
        self, fn: None = ..., *, backprop: bool = ..., like: Shaped | None = ..., **options: Unpack[Common]
    ) -> Decorator[Seen]: ...


class WrappingPadded(Protocol):
    """`with_padded`."""

    @overload
    def __call__(
        self, fn: Callable[Concatenate[Padded, P], Returned], *, like: Shaped | None = ..., **options: Unpack[Rectangle]
    ) -> Callable[Concatenate[X, P], X]: ...
    @overload
    def __call__(
        self,
        fn: Callable[Concatenate[Self_, Padded, P], Returned],
        *,
        like: Shaped | None = ...,
        **options: Unpack[Rectangle],
    ) -> Callable[Concatenate[Self_, X, P], X]: ...
    @overload
    def __call__(
        self, fn: Several, *, backprop: bool = ..., like: Shaped | None = ..., **options: Unpack[Rectangle]
    ) -> Any: ...
    @overload
    def __call__(
        self, fn: None = ..., *, backprop: bool = ..., like: Shaped | None = ..., **options: Unpack[Rectangle]
    ) -> Decorator[Padded]: ...


class WrappingMasked(Protocol):
    """`with_masked`."""

    @overload
    def __call__(
        self, fn: Callable[Concatenate[Masked, P], Returned], *, like: Shaped | None = ..., **options: Unpack[Sided]
    ) -> Callable[Concatenate[X, P], X]: ...
    @overload
    def __call__(
        self,
        fn: Callable[Concatenate[Self_, Masked, P], Returned],
        *,
        like: Shaped | None = ...,
        **options: Unpack[Sided],
    ) -> Callable[Concatenate[Self_, X, P], X]: ...
    @overload
    def __call__(
        self, fn: Several, *, backprop: bool = ..., like: Shaped | None = ..., **options: Unpack[Sided]
    ) -> Any: ...
    @overload
    def __call__(
        self, fn: None = ..., *, backprop: bool = ..., like: Shaped | None = ..., **options: Unpack[Sided]
    ) -> Decorator[Masked]: ...


class RowsDecorator(Protocol):
    """`with_array` that has its options and waits for the function."""

    @overload
    def __call__(self, fn: Callable[Concatenate[Rows, P], Shaped], /) -> Callable[Concatenate[X, P], X]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[Self_, Rows, P], Shaped], /
    ) -> Callable[Concatenate[Self_, X, P], X]: ...
    @overload
    def __call__(self, fn: Several, /) -> Any: ...


class WrappingRows(Protocol):
    """`with_array`, whose functions see an array of whatever library."""

    @overload
    def __call__(
        self, fn: Callable[Concatenate[Rows, P], Shaped], *, like: Shaped | None = ...
    ) -> Callable[Concatenate[X, P], X]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[Self_, Rows, P], Shaped], *, like: Shaped | None = ...
    ) -> Callable[Concatenate[Self_, X, P], X]: ...
    @overload
    def __call__(self, fn: Several, *, backprop: bool = ..., like: Shaped | None = ...) -> Any: ...
    @overload
    def __call__(self, fn: None = ..., *, backprop: bool = ..., like: Shaped | None = ...) -> RowsDecorator: ...
