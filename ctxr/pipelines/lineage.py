"""What a trained run learned from: itself, and through the runs whose encoders it started from."""

from collections.abc import Iterator

from ctxr.data.artifacts import MANIFEST, Artifact, Parent, open_artifact
from ctxr.data.dataset import Dataset

RUN = "run"


def lineage(run: Artifact) -> Iterator[Artifact | Parent]:
    """The run, and every run that it starts from, directly or not; one that is gone or was trained again is a mere `Parent`."""
    yield run
    for parent in run.manifest.parents:
        if parent.kind == RUN:
            folder = run.path.parent / parent.name
            found = open_artifact(folder, RUN) if (folder / MANIFEST).is_file() else None
            if found is None or found.sha256 != parent.sha256:
                yield parent
            else:
                yield from lineage(found)


def other_datasets(run: Artifact, dataset: Dataset) -> list[Parent]:
    """The datasets other than this one that a run itself was made on; releases are taken for one and the same."""
    here = "" if dataset.root is None or not (dataset.root / MANIFEST).is_file() else open_artifact(dataset.root).sha256
    kind = "dataset" if here else "release"
    made_on = [parent for parent in run.manifest.parents if parent.kind in ("dataset", "release")]
    return [one for one in made_on if one.kind != kind or (here and one.sha256 != here)]


def foreign_notes(run: Artifact, dataset: Dataset) -> list[str]:
    """A sentence for each reason why a run, or an encoder that it starts from, may have seen what `dataset` asks elsewhere."""
    name, notes = run.path.resolve().name, []
    for one in lineage(run):
        if isinstance(one, Parent):
            notes.append(
                f"{name}: starts from the run {one.name}, which is gone or was trained again since; what it saw is not known"
            )
            continue
        start = "" if one is run else f"starts from {one.path.resolve().name}, "
        others = [] if one.manifest.config.get("variant") == "zero-shot" else other_datasets(one, dataset)
        notes += [
            f"{name}: {start}trained on another dataset ({other.name}) than this one; the two may share sets"
            for other in others
        ]
    return notes


def chosen_on_test(run: Artifact) -> bool:
    """Whether test chose the epoch of a run, or of one that it starts from."""
    return any(
        isinstance(one, Artifact)
        and bool(one.manifest.config.get("judged_on_test"))
        and one.manifest.counts.get("test") is not None
        for one in lineage(run)
    )
