"""Runs over galleries: encoders, trained or as published, and what they say of every picture with every caption."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ctxr.data.artifacts import Artifact, Parent, open_artifact
from ctxr.data.dataset import Dataset
from ctxr.errors import UsageError
from ctxr.metrics.retrieval import Matrix, Vectors
from ctxr.models.families import find_encoder
from ctxr.models.hub import makes_pairs
from ctxr.models.training.recipe import WITH_HEAD
from ctxr.pipelines.evaluating.measuring import MOST_POSITIONS
from ctxr.pipelines.evaluating.runs import KIND, MODEL, check_name, finished_runs, refuse_changed, run_folder
from ctxr.pipelines.scoring import Device, checkpoints, scorer_name, with_regions
from ctxr.pipelines.talk import Talk
from ctxr.pipelines.training.encoded import PictureFiles
from ctxr.pipelines.training.gallery import found_by
from ctxr.pipelines.training.gallery_sides import GallerySplit
from ctxr.pipelines.training.pair_looks import Rerank


@dataclass(frozen=True)
class GalleryRun:
    """One row of a table: an encoder, or several that differ in their seed alone.

    Attributes:
        found: what every scorer says of a side, by its name. origin: what it is, by content.
        looked: what an encoder of pairs looks at; None where vectors are compared.
    """

    name: str
    found: Callable[[GallerySplit], Mapping[str, Vectors | Matrix]]
    origin: Parent
    artifact: Artifact | None = None
    looked: Rerank | None = None


def asks_galleries(sources: Sequence[str], dataset: Dataset, workdir: Path) -> bool:
    """Whether images are looked for in galleries of photos, and no source needs a set to score a picture."""
    asked = {query.image_set for query in dataset.queries.values() if query.labels is None}
    sets = [one for one in dataset.sets if one.id in asked]
    galleries = all(one.kind == "photos" for one in sets) and max((len(one.images) for one in sets), default=0)
    return galleries > MOST_POSITIONS and all(_searches(one, workdir) for one in sources or finished_runs(workdir))


def find_gallery_runs(
    sources: Sequence[str], pictures: PictureFiles, workdir: Path, device: str, talk: Talk, rerank: Rerank | None = None,
    regions: str = "",
) -> list[GalleryRun]:  # fmt: skip
    """The runs that `sources` name, or every one of the project. Raises what `find_encoder` and `open_artifact` raise.

    Args:
        rerank: what encoders of pairs look at; None for what each was validated with. regions: as in `scores_of`.
    """
    for source in sources:
        check_name(source, workdir)
    runs = [
        _open(source, pictures, workdir, device, talk, rerank, regions) for source in sources or finished_runs(workdir)
    ]
    names = [run.name for run in runs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"two runs are called {twice!r}", hint="rename one of the folders")
    return runs


def _searches(source: str, workdir: Path) -> bool:
    folder = run_folder(source, workdir)
    if folder is None:
        return bool(source) and not Path(source).is_file() and Path(source).suffix not in (".json", ".jsonl")
    config = open_artifact(folder, KIND).manifest.config
    return bool(checkpoints(folder)) and config.get("variant") not in WITH_HEAD


def _open(
    source: str, pictures: PictureFiles, workdir: Path, device: str, talk: Talk, rerank: Rerank | None, regions: str
) -> GalleryRun:
    from ctxr.models.training.checkpoint import fingerprint_of

    folder = run_folder(source, workdir)
    artifact: Artifact | None = None
    scorers: dict[str, Path | None] = {source: None}
    machine = Device(device)
    if folder is None:
        encoder, name, way = source, source, rerank or Rerank()
        origin = Parent(source, MODEL, fingerprint_of(find_encoder(source, talk.warn)))
    else:
        artifact, seeds = open_artifact(folder, KIND), checkpoints(folder)
        refuse_changed(artifact)
        config = artifact.manifest.config
        encoder, name = str(config["encoder"]), folder.resolve().name
        scorers = {scorer_name(folder, seed, len(seeds)): seed for seed in seeds}
        way = rerank or Rerank(int(config.get("rerank", 0)), str(config.get("rerank_by", "")))
        origin = Parent(name, KIND, artifact.sha256)
        regions = regions or str(config.get("regions", ""))
        machine = Device(device, str(config.get("precision", "auto")))

    def found(side: GallerySplit) -> Mapping[str, Vectors | Matrix]:
        seen = with_regions(pictures, encoder, regions, talk)
        return {
            scorer: found_by(checkpoint, encoder, side, seen, machine, way, talk)
            for scorer, checkpoint in scorers.items()
        }

    return GalleryRun(name, found, origin, artifact, way if makes_pairs(encoder) else None)


def looked_at(runs: Sequence[GalleryRun], talk: Talk) -> dict[str, dict[str, object]]:
    """What each encoder of pairs looks at, with the weights of what proposes it, for the settings of an evaluation."""
    from ctxr.models.training.checkpoint import fingerprint_of

    told: dict[str, dict[str, object]] = {}
    for one in runs:
        if one.looked is not None:
            by = one.looked.by if one.looked.most else ""
            weights = fingerprint_of(find_encoder(by, talk.warn)) if by else ""
            told[one.name] = {"most": one.looked.most, "by": by, "weights": weights}
    return told


def shortlist_notes(runs: Sequence[GalleryRun], compare: bool) -> list[str]:
    """What one must know of figures behind a shortlist."""
    notes = [
        f"{one.name} looks at the {one.looked.most} candidates of each query that {one.looked.by} likes best, both ways; "
        "the rest stands behind in that order"
        for one in runs
        if one.looked is not None and one.looked.most
    ]
    ways = {None if one.looked is None or not one.looked.most else one.looked for one in runs}
    if compare and notes and len(ways) > 1:
        notes.append(
            "runs behind different shortlists, or behind none, are compared: a difference is also that of what proposes"
        )
    return notes
