"""Models over galleries: training pairs, and scores of every picture with every caption."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from ctxr.engine.progress import Progress
from ctxr.metrics.retrieval import Matrix, Vectors
from ctxr.models.cross.sources import CrossSource
from ctxr.models.encoders import Encoder, EncoderSource
from ctxr.models.families import find_encoder
from ctxr.models.hub import makes_pairs
from ctxr.models.precision import choose_device
from ctxr.models.preprocess import Preprocess
from ctxr.models.training.checkpoint import fingerprint_of
from ctxr.problems.embeddings import PictureFiles, embedded, pixels_of
from ctxr.problems.gallery.matching import Shortlist, gallery_scores
from ctxr.problems.gallery.pairs import GalleryPairs, make_pairs
from ctxr.problems.gallery.rankings import RANKINGS, RECALLS, QueryRanking, RecallRow, rankings_of, recalls_of
from ctxr.problems.gallery.recipe import GalleryRecipe
from ctxr.problems.gallery.reranking import Rerank, pair_scoring, shortlist_of
from ctxr.problems.gallery.splits import GallerySplit
from ctxr.problems.pair_inputs import image_inputs
from ctxr.problems.protocols import OpenRun, ScoringOptions
from ctxr.problems.runs import scorers_in
from ctxr.problems.scoring import Device, source_of, with_regions
from ctxr.store.artifacts import open_artifact
from ctxr.store.kinds import RUN
from ctxr.store.tables import write_table


def as_pairs(
    split: GallerySplit, pictures: PictureFiles, source: "EncoderSource | CrossSource", device: str, progress: Progress
) -> "GalleryPairs":
    """What a scorer learns from, or is validated on: tokens, and pictures that were decoded, resized and cut once, or regions."""
    own, row = _rows(split, pictures)
    if isinstance(source, CrossSource):
        images = image_inputs(own, source, device, progress)
    else:
        images = pixels_of(own, Preprocess.from_config(source.build().visual.preprocess_cfg), device, progress)
    written, weak = ([(caption, int(row[image])) for caption, image in pairs] for pairs in (split.written, split.weak))
    return make_pairs(images, source.tokenize(list(split.texts)).numpy(), _galleries(split, row), written, weak)


def shortlist_for(
    split: GallerySplit, pictures: PictureFiles, rerank: Rerank, device: str, progress: Progress
) -> "Shortlist":
    """The pairs of a split that a cross-encoder rescores, its pictures as `as_pairs` has them. Raises what `load_encoder` raises."""
    return shortlist_of(_rows(split, pictures)[0], split.texts, rerank, device, progress)


def score_gallery(
    checkpoint: Path | None,
    encoder: str,
    split: GallerySplit,
    pictures: PictureFiles,
    machine: Device,
    rerank: Rerank,
    progress: Progress,
) -> Vectors | Matrix:
    """The scores of every picture, as a query, with every caption, by a checkpoint or the published `encoder`.

    Vectors of a bi-encoder; of a cross-encoder a table of the rescored pairs, with the others ranked below. Each is computed once for the
    same weights and precision. Raises what `source_of` raises.
    """
    device = choose_device(machine.device)
    source = source_of(checkpoint, encoder, progress)
    if isinstance(source, CrossSource):
        return _matched(checkpoint, source, split, pictures, Device(device, machine.precision), rerank, progress)
    return _vectors(split, pictures, Encoder(source, device, machine.precision, progress.warn), progress)


def _vectors(split: GallerySplit, pictures: PictureFiles, encoder: "Encoder", progress: Progress) -> Vectors:
    """Unit vectors of every picture, as queries, and of every caption, as candidates; each is computed once."""
    own, row = _rows(split, pictures)
    images, captions = embedded(own, list(split.texts), encoder, progress)
    return Vectors(images[row], captions)


def _matched(
    checkpoint: Path | None, source: "CrossSource", split: GallerySplit, pictures: PictureFiles, machine: Device,
    rerank: Rerank, progress: Progress,
) -> Matrix:  # fmt: skip
    """Scores of pictures with captions, pair by pair, in the order of the side."""
    own, row = _rows(split, pictures)
    scorer = pair_scoring(checkpoint, source, own, split.texts, machine, progress)
    shortlist = shortlist_of(own, split.texts, rerank, machine.device, progress)
    with progress.task(f"looking at pairs of {split.name}", len(row)) as task:
        look = partial(scorer.scores, advance=task.advance)
        table = gallery_scores(_galleries(split, row), np.array(split.caption_galleries), shortlist, look)
    return Matrix(table.values[row])


def _rows(split: GallerySplit, pictures: PictureFiles) -> tuple[PictureFiles, np.ndarray]:
    """The pictures of a side, and the row in them of each of its images."""
    own = pictures.of([split.as_query()])
    position = {image: row for row, image in enumerate(own.files)}
    return own, np.array([position[image] for image in split.images], np.int64)


def _galleries(split: GallerySplit, row: np.ndarray) -> np.ndarray:
    """The gallery of each picture, in the order of `_rows`."""
    galleries = np.empty(len(split.images), np.int64)
    galleries[row] = split.image_galleries
    return galleries


def write_rankings(
    run: Path,
    recipe: GalleryRecipe,
    splits: Sequence[GallerySplit],
    pictures: PictureFiles,
    machine: Device,
    progress: Progress,
) -> list[str]:
    """Rankings and recalls by every seed of a run; the names of the tables."""
    rankings: list[QueryRanking] = []
    recalls: list[RecallRow] = []
    rerank = Rerank(recipe.rerank, recipe.rerank_by)
    for scorer, seed in scorers_in(run).items():
        for split in splits:
            scores = score_gallery(seed, recipe.encoder, split, pictures, machine, rerank, progress)
            rankings += rankings_of(split, scores, scorer)
            recalls += recalls_of(split, scores, scorer)
    write_table(run / RANKINGS, rankings)
    write_table(run / RECALLS, recalls)
    return [RANKINGS, RECALLS]


@dataclass(frozen=True)
class OpenGallery(OpenRun):
    """A run or an encoder that scores galleries.

    Attributes:
        checkpoints: by scorer; None for a published encoder. rerank: what an encoder of pairs rescores.
    """

    checkpoints: Mapping[str, Path | None]
    encoder: str
    device: Device
    rerank: Rerank
    options: ScoringOptions
    progress: Progress

    @property
    def fingerprint(self) -> str:
        """Of the encoder as it was published."""
        return fingerprint_of(find_encoder(self.encoder, self.progress.warn))

    @property
    def shortlist(self) -> dict[str, object] | None:
        """What a cross-encoder rescores, with the weights of the retriever; None for encoders of vectors."""
        if not makes_pairs(self.encoder):
            return None
        by = self.rerank.by if self.rerank.most else ""
        weights = fingerprint_of(find_encoder(by, self.progress.warn)) if by else ""
        return {"most": self.rerank.most, "by": by, "weights": weights}

    def score(self, examples: tuple[GallerySplit, dict[str, Path], dict[str, str]]) -> dict[str, Vectors | Matrix]:
        """Scores of every picture of a split with every caption, by scorer; `examples` has files and contents of pictures."""
        split, files, contents = examples
        pictures = PictureFiles(files, contents, self.options.workdir)
        pictures = with_regions(pictures, self.encoder, self.options.regions, self.progress)
        return {
            scorer: score_gallery(checkpoint, self.encoder, split, pictures, self.device, self.rerank, self.progress)
            for scorer, checkpoint in self.checkpoints.items()
        }


def open_run(source: Path | str, options: ScoringOptions, progress: Progress) -> OpenGallery:
    """A run by its folder, or an encoder by its name. Raises what `open_artifact` raises."""
    rerank = None if options.rerank is None else Rerank(options.rerank, options.rerank_by)
    if isinstance(source, str):
        device = Device(options.device, options.precision)
        return OpenGallery({source: None}, source, device, rerank or Rerank(), options, progress)
    config = open_artifact(source, RUN).manifest.config
    return OpenGallery(
        dict(scorers_in(source)),
        str(config["encoder"]),
        Device(options.device, str(config.get("precision", "auto"))),
        rerank or Rerank(int(config.get("rerank", 0)), str(config.get("rerank_by", ""))),
        replace(options, regions=options.regions or str(config.get("regions", ""))),
        progress,
    )
