"""Entailment classifiers of a project: where they lie, and how one is opened."""

from pathlib import Path
from typing import TYPE_CHECKING

from ctxr.errors import DataError, UnfinishedError

if TYPE_CHECKING:
    from ctxr.models.entailment.checkpoint import TrainedClassifier

CLASSIFIERS = "classifiers"
"""Folder of a project that holds a folder for each trained classifier."""

KIND = "classifier"
"""Of their artifacts."""


def open_classifier(run: Path | str, device: str = "auto") -> "TrainedClassifier":
    """A trained classifier (`ctxr.models.entailment.base.Classifier`).

    Args:
        run: its folder, such as `work/classifiers/entailment`; of several seeds the first, or `.../seed1`.
        device: "auto", "cpu", "cuda" or "mps".

    Raises UnfinishedError for a folder that holds none, DataError for one that was changed since it was trained or whose branches
    are not here.
    """
    from ctxr.models.entailment.checkpoint import TrainedClassifier
    from ctxr.models.precision import choose_device

    seed, name = _seed_of(Path(run))
    return TrainedClassifier(seed, name, choose_device(device))


def own_threshold(run: Path | str) -> tuple[float, float | None]:
    """(probability from which on a classifier calls a claim entailed, its precision on the dev pairs that chose it, None where
    none did). Raises what `open_classifier` raises of the folder; no weights are read."""
    from ctxr.models.entailment.checkpoint import read_notes

    seed, _ = _seed_of(Path(run))
    notes = read_notes(seed)
    return notes.threshold, notes.reached


def own_fingerprint(run: Path | str) -> str:
    """What a classifier is known by; raises what `own_threshold` raises, and reads its file of weights through once."""
    from ctxr.models.entailment.checkpoint import fingerprint_of

    return fingerprint_of(_seed_of(Path(run))[0])


def _seed_of(folder: Path) -> tuple[Path, str]:
    """The folder of a seed as it was trained, and what it is called."""
    from ctxr.data.artifacts import open_artifact

    whole = folder.parent if folder.name.startswith("seed") else folder
    if not (whole / "manifest.json").is_file():
        raise UnfinishedError(f"{whole} holds no finished classifier", hint="ctxr train --recipe entailment")
    artifact = open_artifact(whole, KIND)
    seed = folder if whole != folder else folder / "seed0"
    if not any(name.startswith(f"{seed.name}/") for name in artifact.manifest.files):
        raise DataError(f"{whole} was trained without {seed.name}", hint="name one of its seeds, or train it again")
    if edited := artifact.changed_files(f"{seed.name}/"):
        raise DataError(
            f"{whole / edited[0]} was changed since it was trained",
            hint="ctxr train as before, which trains a changed seed again",
        )
    name = whole.resolve().name
    return seed, name if whole == folder else f"{name}/{seed.name}"


def classifiers_in(workdir: Path) -> list[str]:
    """Names of the finished classifiers of a project."""
    return [folder.name for folder in sorted((workdir / CLASSIFIERS).glob("*")) if is_classifier(folder)]


def is_classifier(folder: Path) -> bool:
    """Whether a folder holds a finished classifier."""
    from ctxr.data.artifacts import MANIFEST, open_artifact

    return (folder / MANIFEST).is_file() and open_artifact(folder).manifest.kind == KIND
