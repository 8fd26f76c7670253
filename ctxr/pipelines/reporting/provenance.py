"""Where everything comes from: per artifact its verb, settings, parents, models and packages, each with version or hash."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

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
    """Origins of all artifacts, the last one first. None where there are results alone."""
    origins = [_origin(stage) for stage in reversed(edition.chain.stages) if stage.sha256]
    return {"origins": origins} if origins else None


def _origin(stage: Stage) -> Origin:
    manifest = stage.manifest
    if manifest is None:
        return Origin(stage.name, stage.made_by, stage.sha256, [])
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
    return Origin(stage.name, stage.made_by, stage.sha256, [group for group in groups if group[1]])


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
