"""Names for spaCy's configurations: the callback that sets these Ops before the models of a pipeline are made."""

from collections.abc import Callable
from typing import Any

from spacy.util import registry

from ..lazy_import import import_now


def use_callback() -> Callable[[Any], Any]:
    """For ``before_creation`` in ``[nlp]``: the models of the pipeline run on these kernels."""

    def before_creation(language: type) -> Any:
        import_now(".ops", __package__).use()
        return language

    return before_creation


registry.callbacks("seqformats.use.v1", func=use_callback)
