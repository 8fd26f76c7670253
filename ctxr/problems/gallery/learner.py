"""How models are trained and opened that answer about galleries."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from ctxr.datasets.dataset import Dataset
from ctxr.models.cross.sources import CrossSource
from ctxr.models.hub import makes_pairs
from ctxr.models.training.loop import Objective, TrainingRun
from ctxr.problems.gallery.contrastive import ContrastiveObjective, GalleryPairs
from ctxr.problems.gallery.matching import MatchingObjective
from ctxr.problems.gallery.rankings import MEAN_RECALL, RANKINGS, RECALLS, RecallRow, rankings_of, recalls_of
from ctxr.problems.gallery.recipe import GalleryRecipe
from ctxr.problems.gallery.scoring import OpenGallery, as_pairs, rows_of_split, shortlist_of
from ctxr.problems.gallery.splits import splits_for
from ctxr.problems.runs import scorers_in
from ctxr.problems.scorer_training import ScorerJob, Source
from ctxr.store.hashing import sha256_of
from ctxr.store.tables import read_table, write_table


class GalleryJob(ScorerJob):
    """Seeds that learn captions and pictures of a batch against each other."""

    MEASURE: ClassVar[str] = MEAN_RECALL
    NOTE: ClassVar[str] = "TR and IR at 1, 5, 10"

    recipe: GalleryRecipe

    def read(self, dataset: Dataset, judgments: Path | None) -> Any:
        """See `ScorerJob`; the galleries of each split."""
        self.splits = splits_for(dataset, self.recipe, judgments)
        self.asked = {name: [split.as_query()] for name, split in self.splits.items()}
        self.queries = {name: len(split) for name, split in self.splits.items()}
        if "valid" in self.splits and makes_pairs(self.recipe.encoder):
            self.slow_validation = len(self.splits["valid"].images)
        return self.splits["train"].weak

    def content_key(self, sha256: str) -> str:
        """With the captions and what they were written for."""
        return sha256_of([sha256, *(split.sha256 for split in self.splits.values())])

    def examples(self, source: Source) -> tuple[GalleryPairs, GalleryPairs | None]:
        """Pairs of a caption and a picture that it was written for."""
        pairs = partial(as_pairs, pictures=self.pictures, source=source, device=self.device, progress=self.progress)
        valid = self.splits.get("valid")
        return pairs(self.splits["train"]), None if valid is None else pairs(valid)

    def objective(self, source: Source, train: Any, valid: Any) -> Callable[[TrainingRun], Objective]:
        """Contrastive for an encoder of vectors, matching for one of pairs."""
        if not isinstance(source, CrossSource):
            return partial(ContrastiveObjective, self.recipe, train, valid)
        shortlist = None
        if (split := self.splits.get("valid")) is not None:
            pictures, _ = rows_of_split(split, self.pictures)
            shortlist = shortlist_of(pictures, split.texts, self.scoring, self.device, self.progress)
        return partial(MatchingObjective, self.recipe, train, valid, shortlist=shortlist)

    def write_scores(self) -> list[str]:
        """Rankings and recalls."""
        opened = OpenGallery(scorers_in(self.out), self.recipe.encoder, self.scoring, self.progress)
        splits = [self.splits[name] for name in ("valid", "test") if name in self.splits]
        tables = [(split, *item) for split in splits for item in opened.tables(split, self.pictures).items()]
        write_table(
            self.out / RANKINGS, [row for split, scorer, table in tables for row in rankings_of(split, table, scorer)]
        )
        write_table(
            self.out / RECALLS, [row for split, scorer, table in tables for row in recalls_of(split, table, scorer)]
        )
        return [RANKINGS, RECALLS]

    def results(self) -> list[tuple[float | None, float | None]]:
        """Mean recalls."""
        rows = [row for row in read_table(self.out / RECALLS, RecallRow) if row.measure == MEAN_RECALL]
        values = {(row.scorer, row.side): row.value for row in rows}
        return [(values.get((name, "valid")), values.get((name, "test"))) for name in self.scorers]


class GalleryLearner:
    """See `Learner`."""

    Recipe: ClassVar[type[GalleryRecipe]] = GalleryRecipe
    job = GalleryJob
    open_run = OpenGallery.open
