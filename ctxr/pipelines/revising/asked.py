"""What a round is about: the galleries that are searched, and the pairs in them of which something is known already."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ctxr.data.records import Judgment
from ctxr.data.tables import read_table
from ctxr.errors import DataError
from ctxr.pipelines.revise_labels import ReviseLabels
from ctxr.pipelines.revising.mining import MinedGallery, galleries_of
from ctxr.pipelines.revising.records import Round
from ctxr.pipelines.revising.rounds import JUDGMENTS, Base, folder_of


@dataclass(frozen=True)
class RevisionInput:
    """What a round is about.

    Attributes:
        base: the dataset. before: rounds in force. positives: images of each caption, given or added before.
        galleries: what is searched.
    """

    base: Base
    before: tuple[Round, ...]
    positives: Mapping[str, frozenset[str]]
    galleries: tuple[MinedGallery, ...]

    @cached_property
    def images(self) -> tuple[str, ...]:
        """Every picture that is asked about, once."""
        return tuple(sorted({image for one in self.galleries for image in one.images}))

    @cached_property
    def captions(self) -> tuple[str, ...]:
        """Every caption that is asked about, once."""
        return tuple(sorted({caption for one in self.galleries for caption in one.captions}))

    @property
    def rejected(self) -> int:
        """Pairs that are not looked at again."""
        return sum(len(one.rejected) for one in self.galleries)


def asked_of(config: ReviseLabels, base: Base, before: Sequence[Round]) -> RevisionInput:
    """What a round on top of those before it is about. Raises DataError for a dataset without captions."""
    rows = [row for row in base.dataset.judgments if row.worker == "gold" and row.value > 0]
    for one in before:
        rows += [row for row in _judgments(config.folder(), one) if row.value > 0]
    fixed = _images_of(rows)
    found = galleries_of(base.dataset, fixed, config.split, config.limit)
    if not found:
        side = "" if config.split == "all" else f" on {config.split}"
        raise DataError(f"{base.dataset.name} has no caption{side}", hint="name a dataset with texts and queries")
    return RevisionInput(base, tuple(before), fixed, tuple(found))


def without_rejected(asked: RevisionInput, out: Path, fingerprint: str, threshold: float) -> RevisionInput:
    """The same without pairs that the classifier with this fingerprint rejected in a round in force, by a threshold that was not
    higher: it would reject them again. What a cap left out has no judgment there, and is looked at again."""
    rows: list[Judgment] = []
    for one in asked.before:
        if one.classifier_fingerprint == fingerprint and one.threshold <= threshold:
            rows += [row for row in _judgments(out, one) if row.value == 0]
    rejected = _images_of(rows)
    return replace(asked, galleries=tuple(_without(one, rejected) for one in asked.galleries))


def _without(gallery: MinedGallery, rejected: Mapping[str, Collection[str]]) -> MinedGallery:
    place, given = {image: at for at, image in enumerate(gallery.images)}, set(gallery.given)
    pairs = [
        (place[image], row)
        for row, name in enumerate(gallery.captions)
        for image in sorted(rejected.get(name, ()))
        if image in place
    ]
    return replace(gallery, rejected=tuple(pair for pair in pairs if pair not in given))


def _judgments(out: Path, made: Round) -> list[Judgment]:
    return read_table(out / folder_of(made.number) / JUDGMENTS, Judgment)


def _images_of(rows: Sequence[Judgment]) -> dict[str, frozenset[str]]:
    """Images of each caption."""
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(row.query, set()).add(row.candidate)
    return {caption: frozenset(images) for caption, images in found.items()}
