"""A small drawn world of galleries, weak positives of it, and what a classifier and people said, for tests."""

from collections.abc import Iterable
from pathlib import Path

from ctxr.datasets.truth import UNSURE, CaptionTruth
from ctxr.store.records import Judgment
from ctxr.store.tables import read_table, write_table
from ctxr.synthetic.captions import WorldCaptions, write_captions

CLASSIFIER = "entailment:stand-in"


def draw(out: Path) -> Path:
    """A dataset artifact with 16, 12 and 24 pictures on train, valid and test."""
    write_captions(WorldCaptions(out, train=16, valid=12, test=24, pair_train=0, pair_valid=0, side=32, workers=1))
    return out


def truth_of(world: Path, gallery: str) -> list[CaptionTruth]:
    return [row for row in read_table(world / "truth.jsonl", CaptionTruth) if row.gallery == gallery]


def extra_pairs(world: Path, gallery: str) -> list[tuple[str, str]]:
    """(caption, picture) that hold and that nobody wrote down."""
    return [(row.caption, image) for row in truth_of(world, gallery) for image in row.holds if image != row.image]


def write_round(
    file: Path,
    yes: Iterable[tuple[str, str]],
    no: Iterable[tuple[str, str]] = (),
    round: int = 1,
    worker: str = CLASSIFIER,
    unsure: Iterable[tuple[str, str]] = (),
) -> Path:
    """Judgments of a later round."""
    verdicts = ((1.0, yes), (0.0, no), (UNSURE, unsure))
    rows = [Judgment(*pair, worker, value, round=round) for value, pairs in verdicts for pair in pairs]
    write_table(file, rows)
    return file
