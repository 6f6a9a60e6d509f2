"""The names of pyctcdecode, for code that imports it."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ..errors import TURN
from . import alphabet, decoder
from .language import LanguageModel

_DEFAULTS = {
    "DEFAULT_ALPHA": 0.5,
    "DEFAULT_BETA": 1.5,
    "DEFAULT_UNK_LOGP_OFFSET": -10.0,
    "DEFAULT_BEAM_WIDTH": 100,
    "DEFAULT_HOTWORD_WEIGHT": 10.0,
    "DEFAULT_PRUNE_LOGP": -10.0,
    "DEFAULT_PRUNE_BEAMS": False,
    "DEFAULT_MIN_TOKEN_LOGP": -5.0,
    "DEFAULT_SCORE_LM_BOUNDARY": True,
}


def as_pyctcdecode() -> None:
    """Let ``import pyctcdecode`` find the decoder of this library, and ``import kenlm`` an empty module.

    So code that asks for them runs with neither installed: `Wav2Vec2ProcessorWithLM` of transformers, for example.
    Call it before such code is imported.  A second call changes nothing.

    Raises
    ------
    StructureError
        If another pyctcdecode has been imported already.

    Notes
    -----
    There are the modules ``pyctcdecode``, ``.alphabet``, ``.constants``, ``.decoder`` and ``.language_model``, with the
    classes and functions of `build_ctcdecoder`; without ``load_from_hf_hub`` and models of several files.  KenLM's
    binary files are not read.

    Examples
    --------
    >>> import seqformats as sf
    >>> sf.ctc.as_pyctcdecode()
    >>> from pyctcdecode import build_ctcdecoder
    >>> build_ctcdecoder is sf.ctc.build_ctcdecoder
    True
    """
    there: Any = sys.modules.get("pyctcdecode")
    if there is not None and getattr(there, "build_ctcdecoder", None) is not decoder.build_ctcdecoder:
        raise TURN("another pyctcdecode has been imported already; call as_pyctcdecode before that")
    if there is not None:
        return
    decoding = {
        "BeamSearchDecoderCTC": decoder.BeamSearchDecoderCTC,
        "build_ctcdecoder": decoder.build_ctcdecoder,
    }
    letters = {name: getattr(alphabet, name) for name in ("Alphabet", "BLANK_TOKEN_PTN", "UNK_TOKEN_PTN", "UNK_TOKEN")}
    model = {"LanguageModel": LanguageModel}
    contents: dict[str, dict[str, Any]] = {
        "kenlm": {},
        "pyctcdecode": {**decoding, "Alphabet": alphabet.Alphabet, **model},
        "pyctcdecode.alphabet": letters,
        "pyctcdecode.constants": _DEFAULTS,
        "pyctcdecode.decoder": decoding,
        "pyctcdecode.language_model": model,
    }
    made = {}
    for name, names in contents.items():
        module: Any = ModuleType(name, "Of seqformats.ctc.")
        package = name == "pyctcdecode"
        module.__spec__ = ModuleSpec(name, None, is_package=package)
        if package:
            module.__path__ = []
        vars(module).update(names)
        made[name] = module
        if "." in name:
            setattr(made["pyctcdecode"], name.partition(".")[2], module)
    for name, module in made.items():
        sys.modules.setdefault(name, module)
