"""The columns of each published dataset, and what its labels mean."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from ctxr.errors import DataError

THRESHOLD = 3.0
"""Similarity of 0..5 from which a pair counts as entailed (entailment paper, section 6; CxC extends its positives likewise)."""

MOST_SHOWN = 30
"""Signs of a column's name that are shown of a file that is something else."""

_NLI = {
    "entailment": ("entailment", 1),
    "neutral": ("neutral", 0),
    "contradiction": ("contradiction", 0),
    "contradictory": ("contradiction", 0),
    "not_entailment": ("not_entailment", 0),
}


@dataclass(frozen=True)
class PairFormat:
    """Where in a row what is found; of several names the first one that the file has.

    Attributes:
        source: short name of the dataset.
        premise, hypothesis, image, caption, language, id: names of the columns; empty where there is none.
        label: column of the label, or of the score where `labels` is empty.
        labels: (relation, label) of each label; without them a score of at least `THRESHOLD` is entailed.
        beside: further columns by which the format is known.
        headless: columns of a file without a header.
    """

    source: str
    label: tuple[str, ...]
    premise: tuple[str, ...] = ()
    hypothesis: tuple[str, ...] = ()
    image: tuple[str, ...] = ()
    caption: tuple[str, ...] = ()
    second_caption: tuple[str, ...] = ()
    id: tuple[str, ...] = ()
    language: tuple[str, ...] = ()
    labels: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    beside: tuple[str, ...] = ()
    headless: tuple[str, ...] = ()

    def needs(self) -> list[tuple[str, ...]]:
        """Columns without which a file is not of this format, each with its other names."""
        asked = (self.label, self.premise, self.hypothesis, self.image, self.caption, self.second_caption)
        return [names for names in asked if names] + [(name,) for name in self.beside]

    def missing(self, columns: Collection[str]) -> list[str]:
        """What a file with these columns lacks of the format."""
        return [names[0] for names in self.needs() if not set(names) & set(columns)]

    def far_from(self, path: str, columns: Collection[str]) -> tuple[float, bool, bool]:
        """How unlikely a file is one of this format that was spoilt: by the share of columns that it lacks, then by the names of
        file and folder, then by columns that such files have though nobody needs them."""
        lacking = len(self.missing(columns)) / len(self.needs())
        called = "/".join(PurePath(path).parts[-2:]).lower()
        named = re.search(rf"(?<![a-z0-9]){self.source.replace('-', '[-_]?')}(?![a-z])", called)
        needed = {name for names in self.needs() for name in names}
        unlike = bool(self.headless) and not (set(self.headless) - needed) & set(columns)
        return lacking, named is None, unlike


_FIRST, _SECOND = ("sentence1",), ("sentence2",)
_FLICKR = ("Flickr30K_ID", "Flickr30kID", "Flikr30kID")

FORMATS = (
    PairFormat("cxc", label=("agg_score",), image=("image",), caption=("caption",)),
    PairFormat("cxc-sts", label=("agg_score",), caption=("caption1",), second_caption=("caption2",)),
    PairFormat(
        "snli-ve", label=("gold_label",), premise=_FIRST, hypothesis=_SECOND, image=_FLICKR, id=("pairID",), labels=_NLI,
    ),
    PairFormat("e-snli-ve", label=("gold_label",), hypothesis=("hypothesis",), image=_FLICKR, id=("pairID",), labels=_NLI),
    PairFormat(
        "mrpc", label=("Quality",), premise=("#1 String",), hypothesis=("#2 String",),
        labels={"1": ("paraphrase", 1), "0": ("no_paraphrase", 0)},
    ),
    PairFormat(
        "qqp", label=("is_duplicate",), premise=("question1",), hypothesis=("question2",), id=("id",),
        labels={"1": ("duplicate", 1), "0": ("no_duplicate", 0)},
    ),
    PairFormat(
        "sts-b", label=("score",), premise=_FIRST, hypothesis=_SECOND, id=("index",),
        headless=("genre", "filename", "year", "place", "score", "sentence1", "sentence2"),
    ),
    PairFormat(
        "xnli", label=("gold_label",), premise=_FIRST, hypothesis=_SECOND, id=("pairID",), language=("language",), labels=_NLI,
        beside=("language",),
    ),
    PairFormat("xnli", label=("label",), premise=("premise",), hypothesis=("hypo", "hypothesis"), labels=_NLI),
    PairFormat("mnli", label=("gold_label",), premise=_FIRST, hypothesis=_SECOND, id=("pairID",), labels=_NLI, beside=("promptID",)),
    PairFormat("rte", label=("label",), premise=_FIRST, hypothesis=_SECOND, id=("index",), labels=_NLI),
)  # fmt: skip
"""Every format, the more particular ones first."""

SOURCES = tuple(dict.fromkeys(one.source for one in FORMATS))


def find_format(path: str, columns: Collection[str], source: str | None) -> PairFormat:
    """The format of a file with these columns, among those of `source` if it is named.

    Raises DataError saying which columns are missing from the likeliest one.
    """
    chosen = [one for one in FORMATS if source in (None, one.source)]
    if not chosen:
        raise DataError(f"{source!r} is no entailment dataset that ctxr reads", hint=f"one of {', '.join(SOURCES)}")
    fitting = next((one for one in chosen if not one.missing(columns)), None)
    if fitting is not None:
        return fitting
    if {"image1", "image2"} <= set(columns):
        raise DataError(f"{path}:1: pairs of pictures have no hypothesis", hint="name CxC's SITS or STS file")
    nearest = min(chosen, key=lambda one: one.far_from(path, columns))
    if len(nearest.missing(columns)) == len(nearest.needs()):
        named = ", ".join(repr(one[:MOST_SHOWN]) for one in list(columns)[:3] if one) or "nothing"
        raise DataError(
            f"{path}:1: the header names {named}, which is no dataset of entailment", hint=f"of {', '.join(SOURCES)}"
        )
    lacking = ", ".join(nearest.missing(columns))
    raise DataError(
        f"{path}:1: the header lacks {lacking} to be {nearest.source}",
        hint="restore the header; test files without labels cannot be used",
    )
