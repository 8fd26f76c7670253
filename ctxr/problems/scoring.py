"""Checkpoints and published encoders, opened to score pictures with texts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from ctxr.engine.progress import Progress
from ctxr.errors import DataError
from ctxr.models.cross.sources import CrossSource
from ctxr.models.encoders import Encoder
from ctxr.models.families import find_encoder
from ctxr.models.hub import makes_pairs
from ctxr.models.scorers import ClipScorer, PairScorer
from ctxr.models.training.checkpoint import load_head, model_fingerprint, read_checkpoint, tuned
from ctxr.models.training.examples import ExampleTable
from ctxr.models.training.scoring import in_bf16, resolved
from ctxr.problems.embeddings import PictureFiles, as_vectors
from ctxr.problems.pair_inputs import Source, as_features, as_inputs, at_once, regions_for
from ctxr.problems.protocols import OpenRun, ScoringOptions
from ctxr.problems.queries import EvalQuery
from ctxr.problems.runs import scorers_in
from ctxr.store.artifacts import open_artifact
from ctxr.store.kinds import RUN
from ctxr.store.paths import rooted


@dataclass(frozen=True)
class OpenScorer(OpenRun):
    """A trained run, or an encoder as it was published; weights are read once something is to be scored.

    Attributes:
        checkpoints: by scorer; None for a published encoder. encoder: below them.
        options: precision, regions and shortlist are those of the run where none were given.
    """

    checkpoints: Mapping[str, Path | None]
    encoder: str
    options: ScoringOptions
    progress: Progress

    @classmethod
    def open(cls, source: Path | str, options: ScoringOptions, progress: Progress) -> Self:
        """A run by its folder, or an encoder by its name.

        Raises UnfinishedError for a run that is not finished, DataError for one without checkpoints.
        """
        if isinstance(source, str):
            return cls({source: None}, rooted(source, options.workdir), options, progress)
        config = rooted(open_artifact(source, RUN, "ctxr train").manifest.config, source / "../..")
        checkpoints = scorers_in(source)
        if not checkpoints:
            raise DataError(f"{source} holds no checkpoint", hint="train it again: ctxr train")
        precision = str(config["precision"]) if options.precision == "auto" else options.precision
        options = replace(options, regions=options.regions or str(config.get("regions", "")), precision=precision)
        if options.rerank is None:
            by = str(config.get("rerank_by", ""))
            options = replace(options, rerank=int(config.get("rerank", 0)), rerank_by=by)
        return cls(dict(checkpoints), str(config["encoder"]), options, progress)

    def with_regions(self, pictures: PictureFiles) -> PictureFiles:
        """The pictures with their regions, where the encoder looks at any."""
        if not makes_pairs(self.encoder):
            return pictures
        source: Any = find_encoder(self.encoder, self.progress.warn)
        return replace(pictures, regions=regions_for(source, self.options.regions, pictures.workdir))


@dataclass(frozen=True)
class ScoringPlan:
    """How queries are scored.

    Attributes:
        prepare: makes arrays of queries. ranker: the scorer of these, on its device, in evaluation mode (see `load_head`).
        at_once: queries in one pass. bf16: compute in it by autocast.
    """

    prepare: Callable[[Sequence[EvalQuery]], ExampleTable]
    ranker: ClipScorer | PairScorer
    at_once: int
    bf16: bool = False


def prepared(
    source: Source,
    pictures: PictureFiles,
    frozen: bool,
    device: str,
    precision: str,
    *,
    progress: Progress,
) -> Callable[[Sequence[EvalQuery]], ExampleTable]:
    """What makes arrays of queries: of what a `frozen` encoder says, which comes out of the cache; else of what it looks at."""
    if not frozen:
        return lambda queries: as_inputs(queries, pictures, source, device, progress)
    if isinstance(source, CrossSource):
        return lambda queries: as_features(queries, pictures, source, device, precision, progress=progress)
    encoder = Encoder(source, device, resolved(precision, device), progress.warn)
    return lambda queries: as_vectors(queries, pictures, encoder, progress)


def plan_scoring(
    checkpoint: Path | None,
    source: Source,
    pictures: PictureFiles,
    device: str,
    precision: str,
    *,
    progress: Progress,
) -> ScoringPlan:
    """How a checkpoint, or the published encoder where there is none, scores queries.

    A cross-encoder without a head over it as it was published computes its pairs again.
    """
    config = None if checkpoint is None else read_checkpoint(checkpoint)
    kept = config is not None and config.shape.head is not None and config.frozen
    frozen = kept or not isinstance(source, CrossSource)
    prepare = prepared(source, pictures, frozen, device, precision, progress=progress)
    encoder = None if frozen else source.build()
    if checkpoint is not None:
        ranker = load_head(checkpoint, encoder)
    else:
        ranker = (ClipScorer() if encoder is None else PairScorer(encoder)).eval()
    if frozen:
        return ScoringPlan(prepare, ranker.to(device), 256)
    return ScoringPlan(prepare, ranker.to(device), at_once(device), in_bf16(precision, device))


def source_of(checkpoint: Path | None, encoder: str, progress: Progress) -> Source:
    """The encoder below a checkpoint, with its trained weights where it has any.

    Raises DataError where it was trained over another encoder than `encoder`, or over other weights than it has now.
    """
    source = find_encoder(encoder, progress.warn)
    if checkpoint is None:
        return source
    config = read_checkpoint(checkpoint)
    if (below := config.shape.encoder) != source.name:
        raise DataError(
            f"{checkpoint} was trained over the encoder {below}, not over {source.name}",
            hint=f"train again with --set encoder={below}",
        )
    trained = tuned(source, checkpoint, f"{below} as trained in {checkpoint.parent.name}/{checkpoint.name}")
    if model_fingerprint(trained) != config.fingerprint:
        raise DataError(
            f"{checkpoint} was trained over other weights than {below} has now",
            hint="put the weights back that it was trained with, or train again: ctxr train",
        )
    return trained
