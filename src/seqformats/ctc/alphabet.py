"""Labels as pyctcdecode reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from ..errors import ARGUMENT, BROKEN, quote
from .speech import strings

BLANK_TOKEN_PTN = re.compile(r"^[<\[]pad[>\]]$", re.IGNORECASE)
UNK_TOKEN_PTN = re.compile(r"^[<\[]unk[>\]]$", re.IGNORECASE)
SPECIAL_TOKEN_PTN = re.compile(r"^[<\[].+[>\]]$")
BEGIN = "▁"
UNK_TOKEN, UNK_PIECE = "⁇", "▁⁇▁"


class Alphabet:
    """The labels of a decoder, with ``""`` for the blank and ``" "`` or "▁" between words.

    Attributes
    ----------
    labels : list of str
    is_bpe : bool
        True if they begin words with "▁".
    """

    def __init__(self, labels: Sequence[str], is_bpe: bool) -> None:
        found = strings(labels, "labels")
        twice = {label for label in found if found.count(label) > 1} if len(set(found)) < len(found) else set()
        if twice:
            raise ARGUMENT(f"labels must differ from each other, but {quote(min(twice))} is there more than once")
        if is_bpe and any(" " in label for label in found):
            raise ARGUMENT("labels that begin words with '▁' or '##' cannot have spaces in them")
        if "" not in found:
            raise ARGUMENT("labels must have one for the blank, ''")
        self.labels, self.is_bpe = list(found), bool(is_bpe)

    @classmethod
    def build_alphabet(cls, labels: Sequence[str]) -> Alphabet:
        """Read labels as models have them.

        ``<pad>`` or ``[PAD]`` is the blank, or "_" where there is none, or one that is added at the end.  With pieces
        of words ("##" goes on with one, or "▁" begins one) words begin so; else ``" "`` is between them, or ``"|"``
        where there is none.  ``<unk>`` writes "⁇".
        """
        found = list(strings(labels, "labels"))
        pieces = any(label.startswith(("##", BEGIN)) for label in found)
        cls(found if "" in found else [*found, ""], pieces)
        if any(label.startswith("##") for label in found):
            found = [_with_begin(label) for label in found]
        if not pieces and "|" in found and " " not in found:
            found[found.index("|")] = " "
        found = ["" if BLANK_TOKEN_PTN.match(label) else label for label in found]
        if not pieces and "_" in found and "" not in found:
            found[found.index("_")] = ""
        if "" not in found:
            found.append("")
        unknown = UNK_PIECE if pieces else UNK_TOKEN
        return cls([unknown if UNK_TOKEN_PTN.match(label) else label for label in found], pieces)

    def dumps(self) -> str:
        """The labels as JSON."""
        return json.dumps({"labels": self.labels, "is_bpe": self.is_bpe})

    @classmethod
    def loads(cls, text: str) -> Alphabet:
        """Read what `dumps` has written."""
        try:
            facts = json.loads(text)
            labels, pieces = facts["labels"], facts["is_bpe"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise BROKEN(f"this is no alphabet of a decoder: {type(error).__name__}: {error}") from None
        return cls(labels, pieces)

    @property
    def blank(self) -> int:
        """The number of the blank."""
        return self.labels.index("")

    def list_spellings(self) -> list[tuple[str, int]]:
        """List what each label writes, and whether it ends a word (1), begins one (2) or does neither."""
        found = []
        for label in self.labels:
            if not self.is_bpe:
                found.append(("", 1) if label == " " else (label, 0))
            elif label.startswith(BEGIN):
                found.append((label[1:-1] if len(label) > 1 and label.endswith(BEGIN) else label[1:], 2))
            else:
                found.append((label, 0))
        return found


def _with_begin(label: str) -> str:
    """A piece in the style of "##" in that of "▁"."""
    if label.startswith("##"):
        return label[2:]
    return label if SPECIAL_TOKEN_PTN.match(label) or label in ("", BEGIN, UNK_PIECE) else BEGIN + label
