"""How models are trained and opened that answer about galleries."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.engine.progress import Progress
from ctxr.errors import DataError
from ctxr.metrics.retrieval import Matrix, Vectors
from ctxr.models.cross.sources import CrossSource
from ctxr.models.encoders import Encoder, load_encoder
from ctxr.models.families import find_encoder
from ctxr.models.hub import makes_pairs
from ctxr.models.precision import choose_device
from ctxr.models.training.checkpoint import model_fingerprint
from ctxr.models.training.loop import TrainingRun
from ctxr.problems.embeddings import PictureFiles, cached, embedded_images, embedded_texts
from ctxr.problems.galleries import (
    MEAN_RECALL,
    RANKINGS,
    RECALLS,
    GallerySplit,
    RecallRow,
    gallery_splits,
    rankings_of,
    recalls_of,
)
from ctxr.problems.gallery.contrastive import ContrastiveObjective, GalleryPairs, make_pairs
from ctxr.problems.gallery.matching import (
    Advance,
    MatchingObjective,
    PairMatcher,
    Rows,
    Shortlist,
    Table,
    Wanted,
    gallery_scores,
)
from ctxr.problems.gallery.recipe import GalleryRecipe
from ctxr.problems.human_labels import Verdicts
from ctxr.problems.pair_inputs import Source, image_inputs
from ctxr.problems.protocols import ScoringOptions
from ctxr.problems.runs import scorers_in
from ctxr.problems.scorer_training import Examples, ScorerJob, TrainingData
from ctxr.problems.scoring import OpenScorer, plan_scoring, source_of
from ctxr.problems.weak_positives import none_entailed
from ctxr.store.artifacts import Parent
from ctxr.store.hashing import sha256_bytes, sha256_file, sha256_of
from ctxr.store.kinds import MODEL
from ctxr.store.tables import read_table, write_table

KEPT = 50_000
"""Scores in a file of the cache, as many as a stopped run may lose: some minutes of a large encoder of pairs on a CPU."""


@dataclass(frozen=True)
class PairScoring:
    """An encoder of pairs over some pictures and texts.

    Attributes:
        matcher: by index in `pictures` and `texts`. made_by: whatever decides a score beside picture and text.
    """

    matcher: PairMatcher
    pictures: PictureFiles
    texts: Sequence[str]
    made_by: Mapping[str, object]

    def scores(self, images: Rows, captions: Rows, wanted: Wanted, advance: Advance = lambda _: None) -> Table:
        """Scores [n, m] of pictures with texts, by index, 0 where a pair is not wanted; each is computed once.

        Args:
            advance: called with the number of finished pictures.
        """
        contents = list(self.pictures.contents.values())
        origin = {**self.made_by, "texts": sha256_of([self.texts[caption] for caption in captions])}
        names = [
            sha256_of([contents[image], sha256_bytes(np.packbits(row).tobytes())])
            for image, row in zip(images, wanted, strict=True)
        ]

        def make(part: slice) -> Table:
            return self.matcher.scores(images[part], captions, wanted[part])

        chunk = max(1, KEPT // max(1, int(wanted.sum(1).max(initial=1))))
        return np.concatenate(cached(self.pictures.workdir, origin, names, make, advance, chunk=chunk))


def pair_scoring(
    checkpoint: Path | None,
    source: CrossSource,
    pictures: PictureFiles,
    texts: Sequence[str],
    device: str,
    *,
    precision: str,
    progress: Progress,
) -> PairScoring:
    """A checkpoint, or the published encoder where there is none, over pictures and texts."""
    plan = plan_scoring(checkpoint, source, pictures, device, precision, progress=progress)
    weights = [] if checkpoint is None else [sha256_file(one) for one in sorted(checkpoint.glob("*.safetensors"))]
    regions = None if pictures.regions is None else pictures.regions.sha256
    origin = {"what": "matches", "weights": [source.fingerprint, weights], "bf16": plan.bf16, "regions": regions}
    images, tokens = image_inputs(pictures, source, device, progress), source.tokenize(list(texts))
    return PairScoring(PairMatcher(plan.ranker.eval(), images, tokens, device, plan.bf16), pictures, texts, origin)


def shortlist_of(
    pictures: PictureFiles, texts: Sequence[str], options: ScoringOptions, device: str, progress: Progress
) -> Shortlist:
    """The pairs of pictures and texts that a cross-encoder rescores, by index. Raises what `load_encoder` raises."""
    if not options.rerank:
        return Shortlist()
    encoder = load_encoder(options.rerank_by, device, warn=progress.warn)
    return Shortlist(gallery_vectors(pictures, texts, encoder, progress), options.rerank)


def gallery_vectors(pictures: PictureFiles, texts: Sequence[str], encoder: Encoder, progress: Progress) -> Vectors:
    """Unit vectors of pictures, as queries, and of texts, as candidates."""
    images = embedded_images(pictures, encoder, progress)
    return Vectors(images, embedded_texts(texts, pictures.workdir, encoder, progress))


def as_pairs(
    split: GallerySplit, pictures: PictureFiles, source: Source, device: str, progress: Progress
) -> GalleryPairs:
    """What a scorer learns from, or is validated on: tokens, and pictures that were decoded, resized and cut once, or regions."""
    own, row = rows_of_split(split, pictures)
    images = image_inputs(own, source, device, progress)
    written, weak, unsure = (
        [(caption, int(row[image])) for caption, image in pairs] for pairs in (split.written, split.weak, split.unsure)
    )
    tokens = source.tokenize(list(split.texts)).numpy()
    return make_pairs(images, tokens, _galleries(split, row), written, weak, unsure=unsure)


def rows_of_split(split: GallerySplit, pictures: PictureFiles) -> tuple[PictureFiles, np.ndarray]:
    """The pictures of a split, and the row in them of each of its images."""
    own = pictures.of([split.as_query()])
    position = {image: row for row, image in enumerate(own.files)}
    return own, np.array([position[image] for image in split.images], np.int64)


def _galleries(split: GallerySplit, row: np.ndarray) -> np.ndarray:
    """The gallery of each picture, in the order of `rows_of_split`."""
    galleries = np.empty(len(split.images), np.int64)
    galleries[row] = split.image_galleries
    return galleries


class OpenGallery(OpenScorer):
    """A run or an encoder that scores galleries."""

    @property
    def fingerprint(self) -> str:
        """Of the encoder as it was published."""
        return model_fingerprint(find_encoder(self.encoder, self.progress.warn))

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
        for the same weights and precision. Raises what `source_of` raises.
        """
        options, progress, device = self.options, self.progress, choose_device(self.options.device)
        (own, row), tables = rows_of_split(split, pictures), dict[str, Vectors | Matrix]()
        for scorer, checkpoint in self.checkpoints.items():
            source = source_of(checkpoint, self.encoder, progress)
            if not isinstance(source, CrossSource):
                encoder = Encoder(source, device, options.precision, progress.warn)
                vectors = gallery_vectors(own, split.texts, encoder, progress)
                tables[scorer] = Vectors(vectors.queries[row], vectors.candidates)
                continue
            pairs = pair_scoring(
                checkpoint, source, own, split.texts, device, precision=options.precision, progress=progress
            )
            shortlist = shortlist_of(own, split.texts, options, device, progress)
            with progress.task(f"scoring pairs of {split.name}", len(row)) as task:
                score = partial(pairs.scores, advance=task.advance)
                scores = gallery_scores(_galleries(split, row), np.array(split.caption_galleries), shortlist, score)
            tables[scorer] = Matrix(scores.values[row])
        return tables


def splits_for(dataset: Dataset, recipe: GalleryRecipe, verdicts: Verdicts) -> dict[str, GallerySplit]:
    """The sides that a recipe has to do with, with weak positives and unsure pairs; those of train where it uses them.

    Raises DataError where there is nothing to train on, or no weak positive for a recipe that wants some.
    """
    splits = gallery_splits(dataset, verdicts)
    if "train" not in splits:
        raise DataError(
            f"{dataset.name} has no gallery with captions on the train side, so there is nothing to learn from",
            hint="give the photos a `split` (train, valid, test) in their metadata.csv, then revise again; or name another --dataset"
            if "" in splits
            else "name another --dataset",
        )
    if recipe.weak == "off":
        splits["train"] = replace(splits["train"], weak=(), unsure=())
    elif not splits["train"].weak and not splits["train"].unsure:
        raise none_entailed(dataset)
    return {split: splits[split] for split in ("train", "valid", "test") if split in splits}


@dataclass(frozen=True)
class GalleryData(TrainingData):
    """Galleries by split."""

    splits: Mapping[str, GallerySplit] = field(kw_only=True)


class GalleryJob(ScorerJob[GalleryPairs]):
    """Seeds that learn captions and pictures of a batch against each other."""

    MEASURE: ClassVar[str] = MEAN_RECALL
    NOTE: ClassVar[str] = "TR and IR at 1, 5, 10"

    recipe: GalleryRecipe
    data: GalleryData

    def read(self, dataset: Dataset, verdicts: Verdicts) -> GalleryData:
        """See `ScorerJob`; the galleries of each split."""
        splits = splits_for(dataset, self.recipe, verdicts)
        slow = "valid" in splits and makes_pairs(self.recipe.encoder)
        return GalleryData(
            {name: [split.as_query()] for name, split in splits.items()},
            {name: len(split) for name, split in splits.items()},
            splits["train"].weak,
            "valid" if "valid" in splits else "",
            len(splits["valid"].images) if slow else 0,
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

    def content_key(self, sha256: str) -> str:
        """With the captions and what they were written for."""
        return sha256_of([sha256, *(split.sha256 for split in self.data.splits.values())])

    def examples(self, source: Source) -> Examples[GalleryPairs]:
        """Pairs of a caption and a picture that it was written for."""
        pairs = partial(as_pairs, pictures=self.pictures, source=source, device=self.device, progress=self.progress)
        valid = self.data.splits.get("valid")
        return Examples(pairs(self.data.splits["train"]), None if valid is None else pairs(valid))

    def objective(
        self, source: Source, examples: Examples[GalleryPairs]
    ) -> Callable[[TrainingRun], ContrastiveObjective | MatchingObjective]:
        """Contrastive for an encoder of vectors, matching for one of pairs."""
        if not isinstance(source, CrossSource):
            return partial(ContrastiveObjective, self.recipe, examples.train, examples.valid)
        shortlist = None
        if (split := self.data.splits.get("valid")) is not None:
            pictures, _ = rows_of_split(split, self.pictures)
            shortlist = shortlist_of(pictures, split.texts, self.scoring, self.device, self.progress)
        return partial(MatchingObjective, self.recipe, examples.train, examples.valid, shortlist=shortlist)

    def write_scores(self) -> list[str]:
        """Rankings and recalls."""
        opened = OpenGallery(scorers_in(self.out), self.recipe.encoder, self.scoring, self.progress)
        splits = [self.data.splits[name] for name in ("valid", "test") if name in self.data.splits]
        tables = [(split, *item) for split in splits for item in opened.tables(split, self.pictures).items()]
        for name, rows_of in ((RANKINGS, rankings_of), (RECALLS, recalls_of)):
            write_table(
                self.out / name, [row for split, scorer, table in tables for row in rows_of(split, table, scorer)]
            )
        return [RANKINGS, RECALLS]

    def results(self) -> list[tuple[float | None, float | None]]:
        """Mean recalls."""
        rows = [row for row in read_table(self.out / RECALLS, RecallRow) if row.measure == MEAN_RECALL]
        values = {(row.scorer, row.side): row.value for row in rows}
        return [(values.get((name, "valid")), values.get((name, "test"))) for name in self.scorers]


class GalleryLearner:
    """See `Learner`."""

    job = GalleryJob
    open_run = OpenGallery.open
