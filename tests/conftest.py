"""Hypothesis profiles for the whole suite.

``SEQFORMATS_HYPOTHESIS`` picks one: ``dev`` (the default), ``ci`` (the default where ``CI`` is set; the same
examples every time) or ``nightly``. With ``NUMBA_DISABLE_JIT=1`` every kernel runs as plain Python, so the same
profiles draw fewer examples there.
"""

import os

from hypothesis import HealthCheck, settings

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")

COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}


def examples(compiled, interpreted):
    return interpreted if INTERPRETED else compiled


settings.register_profile("dev", max_examples=examples(30, 8), **COMMON)
settings.register_profile("ci", max_examples=examples(60, 12), derandomize=True, database=None, **COMMON)
settings.register_profile("nightly", max_examples=examples(2000, 200), **COMMON)
settings.load_profile(os.environ.get("SEQFORMATS_HYPOTHESIS") or ("ci" if os.environ.get("CI") else "dev"))
