"""Expressions of batches, drawn, and what the array library itself says of their rows.

An expression is a nested tuple.  `calculate` takes the batches of its leaves; `of_rows` the rows of each, one sequence
after the other, and puts axes of one before items with fewer axes than others, as batches are said to do by themselves.
"""

import importlib
import operator

import numpy as np
import oracle
import strategies
from hypothesis import strategies as st

import seqformats as sf

OPERATORS = [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
    "and_",
    "or_",
    "xor",
]
OF_ONE = ["neg", "pos", "abs", "invert"]
UFUNCS = ["maximum", "minimum", "fmod", "hypot", "arctan2", "copysign", "logical_and", "less", "subtract", "power"]
UFUNCS_OF_ONE = ["exp", "sqrt", "log", "sign", "isnan", "square", "reciprocal", "logical_not", "absolute"]
NUMBERS = [0, 1, 2, -3, 0.5, -1.0, 2.0, True, 1j, np.float32(2), np.int8(3), np.float64(0.5), np.bool_(True)]
CODES = ["i8", "f4", "?", "f8", "u1", "i4", "f2", "c8"]


@st.composite
def cases(draw, kind, codes=CODES):
    """An expression, its batches, the first of them a `kind`, the rows of each, and arrays for single items."""
    lengths = draw(strategies.lengths(5))
    rank = draw(st.sampled_from([(), (3,), (2, 3)]))
    batches, rows = [], []
    for number in range(draw(st.integers(1, 3))):
        item = draw(st.sampled_from([rank, rank[1:], (1,) * len(rank)]))
        dtype = np.dtype(draw(st.sampled_from(codes)))
        truth = strategies.truth_from(lengths, dtype, item, draw(st.booleans()))
        of = draw(st.sampled_from(oracle.ENCODINGS)) if number else kind
        options = {}
        if of in oracle.PADDED:
            options = {"width": truth.longest() + draw(st.integers(0, 2)), "fill": draw(st.sampled_from([0, 1, None]))}
        if of is sf.Masked:
            options["side"] = draw(st.sampled_from(["right", "left"]))
        batches.append(oracle.build(of, truth, **options))
        rows.append(truth.data())
    arrays = [strategies.counting(draw(st.sampled_from(codes)), draw(st.sampled_from([rank, rank[1:], ()])))]
    numbers, array = st.sampled_from(NUMBERS).map(lambda x: ("number", x)), st.just(("array", 0))
    batch = st.recursive(
        st.sampled_from([("batch", i) for i in range(len(batches))]),
        lambda inner: st.one_of(
            st.tuples(st.sampled_from([*OF_ONE, *UFUNCS_OF_ONE]), inner),
            st.tuples(st.sampled_from([*OPERATORS, *UFUNCS]), inner, inner | numbers | array),
            st.tuples(st.sampled_from([*OPERATORS, *UFUNCS]), numbers | array, inner),
            st.tuples(st.just("where"), inner.map(lambda x: ("ne", x, ("number", 1))), inner | numbers, inner | array),
        ),
        max_leaves=4,
    )
    tree = draw(batch)
    tree = ("ne", tree, ("number", 2)) if tree[0] == "batch" else tree
    first = leaf_of(tree)
    if first:  # the first batch says how the result is laid out
        tree = renamed(tree, {0: first, first: 0})
    return tree, batches, rows, arrays


def leaf_of(tree):
    """The number of the first batch in an expression."""
    if tree[0] == "batch":
        return tree[1]
    found = [leaf_of(part) for part in tree[1:] if isinstance(part, tuple)]
    return next((one for one in found if one is not None), None)


def renamed(tree, names):
    if tree[0] == "batch":
        return "batch", names.get(tree[1], tree[1])
    return tuple([renamed(part, names) if isinstance(part, tuple) else part for part in tree])


def calculate(tree, batches, arrays, function):
    """The expression by functions and operators of batches, ``function(name)``."""
    name, *parts = tree
    if name in ("batch", "array", "number"):
        return {"batch": batches, "array": arrays}[name][parts[0]] if name != "number" else parts[0]
    return function(name)(*[calculate(part, batches, arrays, function) for part in parts])


def of_rows(tree, rows, arrays, function):
    """The expression by an array library's own functions, of rows."""
    name, *parts = tree
    if name in ("batch", "array", "number"):
        own = {"batch": rows, "array": arrays}[name][parts[0]] if name != "number" else parts[0]
        return own.item() if isinstance(own, np.bool_) and function is of_torch else own  # no number to tensors
    found = [of_rows(part, rows, arrays, function) for part in parts]
    rank = max(x.ndim - 1 for x, part in zip(found, parts, strict=True) if has_rows(part))
    if any(part[0] == "array" and x.ndim > rank for x, part in zip(found, parts, strict=True)):
        raise ValueError("more axes than an item")
    given = [
        x.reshape(x.shape[0], *(1,) * (rank + 1 - x.ndim), *x.shape[1:]) if has_rows(part) else x
        for x, part in zip(found, parts, strict=True)
    ]
    return function(name)(*given)


def has_rows(tree):
    return tree[0] not in ("array", "number")


def of_numpy(name):
    """A function of NumPy, or an operator."""
    return getattr(np, name) if name in (*UFUNCS, *UFUNCS_OF_ONE, "where") else getattr(operator, name)


def of_jax(name):
    """The same of JAX."""
    jnp = importlib.import_module("jax.numpy")
    return getattr(jnp, name) if name in (*UFUNCS, *UFUNCS_OF_ONE, "where") else getattr(operator, name)


def of_torch(name):
    """The same of PyTorch, whose functions of two tensors take no numbers."""
    torch = importlib.import_module("torch")
    if name not in (*UFUNCS, *UFUNCS_OF_ONE, "where"):
        return getattr(operator, name)
    if name in UFUNCS and hasattr(operator, short := {"subtract": "sub", "power": "pow", "less": "lt"}.get(name, name)):
        return getattr(operator, short)
    found = getattr(torch, name)
    as_tensor = lambda x: torch.as_tensor(x.item() if isinstance(x, np.generic) else x)  # as for operators  # noqa: E731
    return (lambda *given: found(*map(as_tensor, given))) if name in UFUNCS else found
