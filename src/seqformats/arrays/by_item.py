"""Names of the functions of PyTorch that treat each number alone, and what NumPy calls them."""

from __future__ import annotations

_ONE = """abs absolute acos acosh angle arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh bernoulli
bitwise_not ceil conj_physical cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 fix floor frac i0 imag isfinite
isinf isnan isneginf isposinf isreal lgamma log log10 log1p log2 logical_not logit mvlgamma nan_to_num neg negative
ones_like positive polygamma rad2deg real reciprocal round rsqrt sgn sigmoid sign signbit sin sinc sinh sqrt square tan
tanh trunc zeros_like full_like empty_like rand_like randn_like"""
_MORE = """add addcdiv addcmul arctan2 atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor
clamp clamp_max clamp_min clip copysign div divide eq float_power floor_divide fmax fmin fmod gcd ge greater
greater_equal gt heaviside hypot isclose lcm ldexp le less less_equal lerp logaddexp logaddexp2 logical_and logical_or
logical_xor lt maximum minimum mul multiply ne nextafter not_equal pow remainder rsub sub subtract true_divide where
xlogy"""
_OF_TENSORS = """__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __div__ __rdiv__
__floordiv__ __rfloordiv__ __mod__ __rmod__ __pow__ __rpow__ __and__ __rand__ __or__ __ror__ __xor__ __rxor__ __eq__
__ne__ __lt__ __le__ __gt__ __ge__ __neg__ __invert__ __abs__"""
_SPECIAL = """bessel_j0 bessel_j1 digamma entr erf erfc erfcx erfinv exp2 expit expm1 gammainc gammaincc gammaln i0 i0e
i1 i1e log1p log_ndtr logit ndtr ndtri polygamma psi round sinc xlog1py xlogy zeta"""
_OF_NETS = """alpha_dropout celu dropout elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish
relu relu6 rrelu selu sigmoid silu softplus softshrink softsign tanh tanhshrink threshold"""

OWNERS = {
    "": f"{_ONE} {_MORE} relu celu selu rrelu dropout alpha_dropout threshold",
    "Tensor": f"{_ONE} {_MORE} {_OF_TENSORS} relu",
    "special": _SPECIAL,
    "nn.functional": _OF_NETS,
}
"""Where in ``torch`` they are: a module or class, and names."""

_ALIASES = {
    "conjugate": "conj_physical",
    "degrees": "rad2deg",
    "fabs": "abs",
    "left_shift": "bitwise_left_shift",
    "radians": "deg2rad",
    "right_shift": "bitwise_right_shift",
    "rint": "round",
}
_KNOWN = frozenset(f"{_ONE} {_MORE}".split())


def find_torch_name(ufunc: str) -> str:
    """Return PyTorch's name of a ufunc of NumPy; "" where it has none."""
    name = _ALIASES.get(ufunc, ufunc)
    return name if name in _KNOWN else ""
