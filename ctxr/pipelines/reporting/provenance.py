"""Where everything comes from: per artifact its verb, settings, parents, models and packages, each with version or hash."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ctxr.data.artifacts import MANIFEST, Artifact, Manifest, open_artifact
from ctxr.pipelines.evaluating.results import RESULTS
from ctxr.pipelines.evaluating.runs import KIND as RUN
from ctxr.pipelines.evaluating.runs import RUNS
from ctxr.pipelines.reporting.edition import Edition, Section
from ctxr.pipelines.reporting.plots import plain
from ctxr.pipelines.reporting.stages import Stage


@dataclass(frozen=True)
class Origin:
    """One artifact's origin, as named lists of names and values."""

    name: str
    made_by: str
    fingerprint: str
    groups: list[tuple[str, list[tuple[str, str]]]]


def make(edition: Edition) -> Mapping[str, Any] | None:
    """Origins of all artifacts, the last one first, then of the evaluations shown and of the runs in them; None without any."""
    origins = [_origin(stage) for stage in reversed(edition.chain.stages) if stage.sha256]
    origins += [_of(one, f"{RESULTS}/{one.path.name}") for one in edition.evaluations]
    origins += [_of(run, f"{RUNS}/{run.path.name}") for run in _runs(edition)]
    return {"origins": origins} if origins else None


def _runs(edition: Edition) -> Iterator[Artifact]:
    """The runs that were evaluated and still lie in the project as they were."""
    parents = {one.name: one for evaluation in edition.evaluations for one in evaluation.manifest.parents}
    for name, parent in parents.items():
        folder = edition.chain.project / RUNS / name
        if parent.kind == RUN and (folder / MANIFEST).is_file() and open_artifact(folder).sha256 == parent.sha256:
            yield open_artifact(folder)


def _origin(stage: Stage) -> Origin:
    if stage.manifest is None:
        return Origin(stage.name, stage.made_by, stage.sha256, [])
    return Origin(stage.name, stage.made_by, stage.sha256, _groups(stage.manifest))


def _of(artifact: Artifact, name: str) -> Origin:
    return Origin(name, f"ctxr {artifact.manifest.verb}", artifact.sha256, _groups(artifact.manifest))


def _groups(manifest: Manifest) -> list[tuple[str, list[tuple[str, str]]]]:
    groups = [
        ("Settings", list(_flat(manifest.config))),
        *_models(manifest.models),
        (
            "Packages",
            [
                ("ctxr", manifest.ctxr),
                *((name, version or "not installed") for name, version in manifest.packages.items()),
            ],
        ),
        ("Made from", [(f"{parent.name} ({parent.kind})", parent.sha256) for parent in manifest.parents]),
        ("Tables", [(name, entry.sha256) for name, entry in manifest.files.items() if "/" not in name]),
    ]
    return [group for group in groups if group[1]]


def _models(models: Mapping[str, Any]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """A group for each model and instrument, by its place in the manifest."""
    for name, value in models.items():
        if name == "quality" and isinstance(value, dict):
            yield from ((f"Quality: {one}", list(_flat({one: told}, short=True))) for one, told in value.items())
        else:
            yield name.capitalize(), list(_flat({name: value}, short=True))


def _flat(values: Mapping[str, Any], before: str = "", short: bool = False) -> Iterator[tuple[str, str]]:
    """Nested settings as dotted names with values in words; what was not set is left out. `short` drops the first name."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, "" if short else f"{before}{name}.")
        elif value is not None:
            yield f"{before}{name}", _told(value)


def _told(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return plain(value)
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


SECTION = Section("provenance", "Provenance", make)
