"""Runs over galleries: bi-encoders, trained or as published, and the vectors they give."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ctxr.data.artifacts import MANIFEST, Artifact, Parent, open_artifact
from ctxr.data.dataset import Dataset
from ctxr.data.hashing import sha256_of
from ctxr.errors import UsageError
from ctxr.metrics.retrieval import Vectors
from ctxr.models.families import makes_pairs
from ctxr.models.training.recipe import WITH_HEAD
from ctxr.pipelines.evaluating.measuring import MOST_POSITIONS
from ctxr.pipelines.evaluating.runs import KIND, MODEL, RUNS, check_name, refuse_changed
from ctxr.pipelines.scoring import checkpoints, scorer_name, source_of
from ctxr.pipelines.talk import Talk
from ctxr.pipelines.training.encoded import Pictures
from ctxr.pipelines.training.gallery import gallery_vectors
from ctxr.pipelines.training.gallery_sides import GallerySide


@dataclass(frozen=True)
class GalleryRun:
    """One row of a table: an encoder, or several that differ in their seed alone.

    Attributes:
        vectors: those of a side by every scorer, by its name. origin: what it is, by content.
    """

    name: str
    vectors: Callable[[GallerySide], Mapping[str, Vectors]]
    origin: Parent
    artifact: Artifact | None = None


def asks_galleries(sources: Sequence[str], dataset: Dataset, workdir: Path) -> bool:
    """Whether images are looked for in galleries of photos, and every source makes vectors of pictures and of texts apart."""
    asked = {query.image_set for query in dataset.queries.values() if query.labels is None}
    sets = [one for one in dataset.sets if one.id in asked]
    galleries = all(one.kind == "photos" for one in sets) and max((len(one.images) for one in sets), default=0)
    return galleries > MOST_POSITIONS and all(_makes_vectors(one, workdir) for one in _named(sources, workdir))


def find_gallery_runs(
    sources: Sequence[str], pictures: Pictures, workdir: Path, device: str, talk: Talk
) -> list[GalleryRun]:
    """The runs that `sources` name, or every one of the project. Raises what `find_encoder` and `open_artifact` raise."""
    for source in sources:
        check_name(source, workdir)
    runs = [_open(source, pictures, workdir, device, talk) for source in _named(sources, workdir)]
    names = [run.name for run in runs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"two runs are called {twice!r}", hint="rename one of the folders")
    return runs


def _named(sources: Sequence[str], workdir: Path) -> list[str]:
    return list(sources) or sorted(file.parent.name for file in (workdir / RUNS).glob(f"*/{MANIFEST}"))


def _folder(source: str, workdir: Path) -> Path | None:
    for folder in (workdir / RUNS / source, Path(source)):
        if source and folder.is_dir():
            return folder
    return None


def _makes_vectors(source: str, workdir: Path) -> bool:
    folder = _folder(source, workdir)
    if folder is None:
        return (
            bool(source)
            and not Path(source).is_file()
            and Path(source).suffix not in (".json", ".jsonl")
            and not makes_pairs(source)
        )
    config = open_artifact(folder, KIND).manifest.config
    encoder = str(config.get("encoder", ""))
    return bool(checkpoints(folder)) and config.get("variant") not in WITH_HEAD and not makes_pairs(encoder)


def _open(source: str, pictures: Pictures, workdir: Path, device: str, talk: Talk) -> GalleryRun:
    from ctxr.models.encode import Encoder
    from ctxr.models.precision import choose_device

    folder = _folder(source, workdir)

    def vectors(side: GallerySide) -> Mapping[str, Vectors]:
        found = {}
        for name, checkpoint in scorers.items():
            made = source_of(checkpoint, encoder, talk)
            embedder = Encoder(made, choose_device(device), "auto", talk.warn)  # type: ignore[arg-type]
            found[name] = gallery_vectors(side, pictures, embedder, talk)
        return found

    if folder is None:
        scorers: dict[str, Path | None] = {source: None}
        encoder = source
        return GalleryRun(source, vectors, Parent(source, MODEL, sha256_of([source])))
    artifact, seeds = open_artifact(folder, KIND), checkpoints(folder)
    refuse_changed(artifact)
    encoder = str(artifact.manifest.config["encoder"])
    scorers = {scorer_name(folder, seed, len(seeds)): seed for seed in seeds}
    name = folder.resolve().name
    return GalleryRun(name, vectors, Parent(name, KIND, artifact.sha256), artifact)
