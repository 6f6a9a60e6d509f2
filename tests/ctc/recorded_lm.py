"""Answers of pyctcdecode 0.5.0 and KenLM 0.3.0 with models of words, recorded in tests/cases/ctc_lm.json."""

import base64
import json
import zlib
from pathlib import Path

import numpy as np

CASES = Path(__file__).parents[1] / "cases" / "ctc_lm.json"
RECORDED = json.loads(CASES.read_text(encoding="utf-8"))


def write_models(folder):
    """The recorded models as files; their paths by name, None for no model."""
    paths = {name: folder / f"{name}.arpa" for name in RECORDED["models"]}
    for name, path in paths.items():
        path.write_bytes(zlib.decompress(base64.b64decode(RECORDED["models"][name]), 47))
    return {**paths, "": None}


def frames_of(case):
    """The frames of a case, in the form in which they were given."""
    x = np.frombuffer(zlib.decompress(base64.b64decode(case["x"])), "<i4").reshape(case["shape"]) / 1000
    if case["input"] == "logits":
        return x
    p = np.exp(x - x.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    return p if case["input"] == "p" else np.log(p)
