"""How models are trained and opened that answer about galleries."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.engine.progress import Progress
from ctxr.errors import DataError, UsageError
from ctxr.metrics.retrieval import Matrix, Vectors
from ctxr.models.cross.sources import CrossSource
from ctxr.models.encoders import Encoder, load_encoder
from ctxr.models.families import find_encoder
from ctxr.models.hub import makes_pairs
from ctxr.models.training.checkpoint import model_fingerprint, read_checkpoint
from ctxr.models.training.loop import TrainingRun
from ctxr.problems import galleries
from ctxr.problems.embeddings import (
    PictureFiles,
    Runtime,
    Source,
    cached,
    embedded_images,
    embedded_texts,
    image_inputs,
)
from ctxr.problems.galleries import MEAN_RECALL, RANKINGS, RECALLS, GallerySplit, RecallRow
from ctxr.problems.gallery import matching
from ctxr.problems.gallery.contrastive import ContrastiveObjective, GalleryPairs, make_pairs
from ctxr.problems.gallery.matching import Advance, PairMatcher, Rows, Shortlist, Table, Wanted
from ctxr.problems.gallery.recipe import GalleryRecipe
from ctxr.problems.runs import ScoringOptions, scorers_in
from ctxr.problems.scorers import Learning, OpenScorer, ScorerJob, TrainingData, plan_scoring, source_of
from ctxr.problems.verdicts import PairVerdicts, none_entailed
from ctxr.store.artifacts import Parent
from ctxr.store.hashing import sha256_bytes, sha256_file, sha256_of
from ctxr.store.kinds import MODEL
from ctxr.store.tables import read_table, write_table

KEPT = 50_000
"""Scores in a file of the cache, the most a stopped run loses: minutes of a large encoder."""


@dataclass(frozen=True, eq=False)
class SplitPictures:
    """Pictures of a split by id, the gallery of each, and the row of each of the split's images."""

    files: PictureFiles
    rows: Rows
    galleries: Rows

    @classmethod
    def of(cls, split: GallerySplit, pictures: PictureFiles) -> Self:
        """Those of all pictures that the split has."""
        own = pictures.of([split.as_query()])
        galleries = [split.image_galleries[split.image_index[image]] for image in own.files]
        position = {image: row for row, image in enumerate(own.files)}
        return cls(own, np.array([position[image] for image in split.images], np.int64), np.array(galleries, np.int64))


def shortlist_of(pictures: PictureFiles, texts: Sequence[str], options: ScoringOptions, runtime: Runtime) -> Shortlist:
    """Pairs that a cross-encoder rescores, by index. Raises what `load_encoder` raises."""
    if not options.rerank:
        return Shortlist()
    encoder = load_encoder(options.rerank_by, runtime.device, warn=runtime.progress.warn)
    return Shortlist(gallery_vectors(pictures, texts, encoder, runtime.progress), options.rerank)


def gallery_vectors(pictures: PictureFiles, texts: Sequence[str], encoder: Encoder, progress: Progress) -> Vectors:
    """Unit vectors of pictures, as queries, and of texts, as candidates."""
    images = embedded_images(pictures, encoder, progress)
    return Vectors(images, embedded_texts(texts, pictures.workdir, encoder, progress))


class OpenGallery(OpenScorer):
    """A run or an encoder that scores galleries."""

    @property
    def shortlist(self) -> dict[str, object] | None:
        """What a cross-encoder rescores, with the weights of the retriever; None for encoders of vectors."""
        if not makes_pairs(self.encoder):
            return None
        most = self.options.rerank or 0
        by = self.options.rerank_by if most else ""
        weights = model_fingerprint(find_encoder(by, self.progress.warn)) if by else ""
        return {"most": most, "by": by, "weights": weights}

    def score(self, examples: tuple[GallerySplit, dict[str, Path], dict[str, str]]) -> dict[str, Vectors | Matrix]:
        """As `tables`; `examples` has files and contents of pictures."""
        split, files, contents = examples
        return self.tables(split, self.with_regions(PictureFiles(files, contents, self.options.workdir)))

    def tables(self, split: GallerySplit, pictures: PictureFiles) -> dict[str, Vectors | Matrix]:
        """The scores of every picture of a split, as a query, with every caption, by scorer.

        Vectors of a bi-encoder; of a cross-encoder a table of the rescored pairs, with the others ranked below. Each is computed once
        for the same weights and precision. Raises UsageError for a head over sets, and what `source_of` raises.
        """
        runtime, progress = self.runtime, self.progress
        own, tables = SplitPictures.of(split, pictures), dict[str, Vectors | Matrix]()
        for scorer, checkpoint in self.checkpoints.items():
            if checkpoint is not None and read_checkpoint(checkpoint).shape.head is not None:
                raise UsageError(
                    f"{scorer} scores the images of a set together, and galleries are scored image by image",
                    hint="--problem contextual, or a run without a head",
                )
            source = source_of(checkpoint, self.encoder, progress)
            if isinstance(source, CrossSource):
                shortlist = shortlist_of(own.files, split.texts, self.options, runtime)
                with progress.task(f"scoring pairs of {split.name}", len(own.rows)) as task:
                    score = self._pair_scores(checkpoint, source, own.files, split.texts, task.advance)
                    scores = matching.gallery_scores(own.galleries, np.array(split.caption_galleries), shortlist, score)
                tables[scorer] = Matrix(scores.values[own.rows])
            else:
                encoder = Encoder(source, runtime.device, runtime.precision, progress.warn)
                vectors = gallery_vectors(own.files, split.texts, encoder, progress)
                tables[scorer] = Vectors(vectors.queries[own.rows], vectors.candidates)
        return tables

    def _pair_scores(
        self,
        checkpoint: Path | None,
        source: CrossSource,
        pictures: PictureFiles,
        texts: Sequence[str],
        advance: Advance,
    ) -> Callable[[Rows, Rows, Wanted], Table]:
        """Scores of pairs by a model, each computed once; see `PairMatcher.scores`."""
        plan = plan_scoring(checkpoint, source, pictures, self.runtime)
        weights = [] if checkpoint is None else [sha256_file(one) for one in sorted(checkpoint.glob("*.safetensors"))]
        regions = None if pictures.regions is None else pictures.regions.sha256
        made_by = {"what": "matches", "weights": [source.fingerprint, weights], "bf16": plan.bf16, "regions": regions}
        images, tokens = image_inputs(pictures, source, self.runtime), source.tokenize(list(texts))
        matcher = PairMatcher(plan.ranker.eval(), images, tokens, self.runtime.device, plan.bf16)
        contents = list(pictures.contents.values())

        def scores(images: Rows, captions: Rows, wanted: Wanted) -> Table:
            origin = {**made_by, "texts": sha256_of([texts[caption] for caption in captions])}
            names = [
                sha256_of([contents[image], sha256_bytes(np.packbits(row).tobytes())])
                for image, row in zip(images, wanted, strict=True)
            ]
            kept = cached(
                pictures.workdir,
                origin,
                names,
                lambda part: matcher.scores(images[part], captions, wanted[part]),
                advance,
                chunk=max(1, KEPT // max(1, int(wanted.sum(1).max(initial=1)))),
            )
            return np.concatenate(kept)

        return scores


@dataclass(frozen=True)
class GalleryData(TrainingData):
    """Galleries by split."""

    splits: Mapping[str, GallerySplit] = field(kw_only=True)


class GalleryJob(ScorerJob):
    """Seeds that learn captions and pictures of a batch against each other."""

    MEASURE: ClassVar[str] = MEAN_RECALL
    NOTE: ClassVar[str] = "TR and IR at 1, 5, 10"

    recipe: GalleryRecipe
    data: GalleryData

    def read(self, dataset: Dataset, verdicts: PairVerdicts) -> GalleryData:
        """See `ScorerJob`; galleries, with weak positives and unsure pairs on train where the recipe uses them."""
        splits = galleries.gallery_splits(dataset, verdicts)
        if "train" not in splits:
            raise DataError(
                f"{dataset.name} has no gallery with captions in the train split, so there is nothing to learn from",
                hint="give the photos a `split` (train, valid, test) in their metadata.csv, then revise again; or name another --dataset"
                if "" in splits
                else "name another --dataset",
            )
        if self.recipe.weak == "off":
            splits["train"] = replace(splits["train"], weak=(), unsure=())
        elif not splits["train"].weak and not splits["train"].unsure:
            raise none_entailed(dataset)
        splits = {split: splits[split] for split in ("train", "valid", "test") if split in splits}
        slow = "valid" in splits and makes_pairs(self.recipe.encoder)
        return GalleryData(
            {name: [split.as_query()] for name, split in splits.items()},
            {name: len(split) for name, split in splits.items()},
            splits["train"].weak,
            "valid" if "valid" in splits else "",
            len(splits["valid"].images) if slow else 0,
            [split.sha256 for split in splits.values()],
            splits=splits,
        )

    def origins(self, dataset: Dataset, queries: str) -> Iterator[Parent]:
        """See `ScorerJob`; the retriever of the shortlist too."""
        yield from super().origins(dataset, queries)
        if self.recipe.rerank:
            retriever = find_encoder(self.recipe.rerank_by, self.progress.warn)
            yield Parent(self.recipe.rerank_by, MODEL, model_fingerprint(retriever))

    @property
    def scoring(self) -> ScoringOptions:
        """See `ScorerJob`; with the shortlist of the recipe."""
        return replace(super().scoring, rerank=self.recipe.rerank, rerank_by=self.recipe.rerank_by)

    def learning(self, source: Source) -> Learning:
        """Captions and their pictures, by contrast, or by matching for an encoder of pairs."""

        def pairs(split: GallerySplit) -> GalleryPairs:
            own = SplitPictures.of(split, self.pictures)
            images = image_inputs(own.files, source, self.runtime)
            written, weak, unsure = (
                [(caption, int(own.rows[image])) for caption, image in part]
                for part in (split.written, split.weak, split.unsure)
            )
            tokens = source.tokenize(list(split.texts)).numpy()
            return make_pairs(images, tokens, own.galleries, written, weak, unsure=unsure)

        recipe, split = self.recipe, self.data.splits.get("valid")
        train, valid = pairs(self.data.splits["train"]), None if split is None else pairs(split)
        objective: Callable[[TrainingRun], ContrastiveObjective | matching.MatchingObjective]
        objective = partial(ContrastiveObjective, recipe, train, valid)
        if isinstance(source, CrossSource):
            shortlist = None
            if split is not None:
                pictures = self.pictures.of([split.as_query()])
                shortlist = shortlist_of(pictures, split.texts, self.scoring, self.runtime)
            objective = partial(matching.MatchingObjective, recipe, train, valid, shortlist=shortlist)
        return Learning(objective, len(train), valid is not None)

    def write_scores(self) -> list[str]:
        """Rankings and recalls."""
        opened = OpenGallery(scorers_in(self.out), self.recipe.encoder, self.scoring, self.progress)
        splits = [self.data.splits[name] for name in ("valid", "test") if name in self.data.splits]
        tables = [(split, *item) for split in splits for item in opened.tables(split, self.pictures).items()]
        for name, rows_of in ((RANKINGS, galleries.rankings_of), (RECALLS, galleries.recalls_of)):
            write_table(
                self.out / name, [row for split, scorer, table in tables for row in rows_of(split, table, scorer)]
            )
        return [RANKINGS, RECALLS]

    def results(self) -> list[tuple[float | None, float | None]]:
        """Mean recalls."""
        rows = [row for row in read_table(self.out / RECALLS, RecallRow) if row.measure == MEAN_RECALL]
        values = {(row.scorer, row.split): row.value for row in rows}
        return [(values.get((name, "valid")), values.get((name, "test"))) for name in scorers_in(self.out)]


job, open_run = GalleryJob, OpenGallery.open
