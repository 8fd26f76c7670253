"""Sections on what came out at each step, and on where everything comes from."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.splits import SPLITS
from ctxr.media.sources import VIDEO_SUFFIXES
from ctxr.pipelines.inspection.pages.chain import ALONE, ChainStage
from ctxr.pipelines.inspection.pages.edition import REASONS, Edition, Section
from ctxr.pipelines.inspection.pages.plots import plain
from ctxr.problems.results import RESULTS
from ctxr.store.artifacts import MANIFEST, Artifact, Manifest, open_artifact
from ctxr.store.kinds import IMAGE_SETS, RUN, RUNS
from ctxr.store.units import SourceUnit

VIDEO_STEPS = (
    ("embedded", ("near_still",)),
    ("different enough", ("too_close",)),
    ("good enough", ("blurry", "too_much_text", "too_small")),
    ("in a full set", ("set_incomplete",)),
)
PHOTO_STEPS = (
    ("readable", ("unreadable",)),
    ("drawn", ("not_sampled",)),
    ("seen once", ("duplicate",)),
    ("good enough", ("blurry", "too_much_text", "too_small")),
    ("anchors a set", ("too_few_neighbours",)),
)
"""Steps of the two procedures after `considered`, each with the reasons that end there, in the order they are asked."""


@dataclass(frozen=True)
class FunnelStep:
    """The number remaining after a step, absolute and in percent of the first; `lost` gives the reasons for the others."""

    name: str
    left: int
    percent: float
    lost: list[tuple[str, str, int]]


def make_summary(edition: Edition) -> Mapping[str, Any]:
    """Headline, one row of figures per artifact, and the steps for frames and for photos."""
    chain = edition.chain
    by_kind = {kind: [unit for unit in chain.units if unit.source.kind == kind] for kind in ("video", "photos")}
    sets = {kind: sum(len(unit.sets) for unit in units) for kind, units in by_kind.items()}
    funnels = [
        (title, steps)
        for title, kind, asked in (("Frames of videos", "video", VIDEO_STEPS), ("Photos", "photos", PHOTO_STEPS))
        if (steps := _steps(by_kind[kind], asked, kind == "video"))
    ]
    names = ["sets", "images", "considered", "embedded", "measured", "failed"]
    if chain.last.kind != IMAGE_SETS:
        asked = (*names, "texts", "queries", "judgments")
        names = [name for name in asked if any(name in stage.counts for stage in chain.stages)]
    reasons = [name for name in _reasons(edition) if name]
    return {
        "sets": sets,
        "total": sum(sets.values()),
        "videos": _videos(by_kind["video"], edition),
        "photos": _photos(by_kind["photos"], chain.dataset),
        "described": _described(chain.dataset),
        "asked": edition.data["results"]["asked"] if chain.last.kind == ALONE and "results" in edition.data else 0,
        "notes": chain.notes,
        "missing": edition.pictures,
        "stages": chain.stages,
        "funnels": funnels,
        "rows": [(name, [stage.counts.get(name, "") for stage in chain.stages]) for name in names],
        "reasons": [
            (
                name if name in REASONS else "other",
                REASONS[name][0] if name in REASONS else name.replace("_", " "),
                [_of(stage.counts.get("reasons")).get(name, 0) for stage in chain.stages],
            )
            for name in reasons
        ],
        "leaking": chain.last.counts.get("leaking_images"),
    }


def _photos(units: Sequence[SourceUnit], dataset: Dataset | None) -> str:
    """How many photos the sets were drawn from, as in `from 800 photos`; `of photos` where a dataset holds copies alone."""
    if not units:
        return ""
    known = {source.name for source in dataset.sources} if dataset is not None else {unit.source.name for unit in units}
    if any(unit.source.name not in known for unit in units):
        return "of photos"
    photos = sum(unit.source.frames for unit in units)
    return f"from {photos:,} photo{'s' * (photos != 1)}"


def _described(dataset: Dataset | None) -> list[tuple[str, int, int]]:
    """(side, sets, descriptions) of each side of a dataset that has any; the last side is that of sets on none."""
    if dataset is None:
        return []
    sides: dict[str, str] = {one.id: dataset.split_of(one) or "" for one in dataset.sets}
    sets = Counter(sides.values())
    asked = Counter(sides[query.image_set] for query in dataset.queries.values() if query.labels is None)
    return [(side or "no split", sets[side], asked[side]) for side in (*SPLITS, "") if sets[side]]


def _videos(units: Sequence[SourceUnit], edition: Edition) -> str:
    """How many videos gave sets, as in `3 of 8 videos (1 failed, 4 gave none)`; empty without any."""
    known = {unit.source.name for unit in edition.chain.units}
    failed = {
        row.source
        for stage in edition.chain.stages
        for row in stage.failures
        if row.source not in known and PurePosixPath(row.path).suffix.lower() in VIDEO_SUFFIXES
    }
    gave = sum(bool(unit.sets) for unit in units)
    total = len(units) + len(failed)
    told = [f"{len(failed):,} failed"] * bool(failed)
    told += [f"{len(units) - gave:,} gave none"] * (gave < len(units))
    if not total:
        return ""
    of = f"{gave:,} of {total:,}" if told else f"{total:,}"
    return f"{of} video{'s' * (total != 1)}" + (f" ({', '.join(told)})" if told else "")


def _of(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _reasons(edition: Edition) -> list[str]:
    found = {name for stage in edition.chain.stages for name in _of(stage.counts.get("reasons"))}
    return [*(name for name in REASONS if name in found), *sorted(found - REASONS.keys())]


def _steps(units: Sequence[SourceUnit], asked: Sequence[tuple[str, tuple[str, ...]]], video: bool) -> list[FunnelStep]:
    """From what the sources hold to what is in a set; steps at which nothing could fall out are left out."""
    rows = [row for unit in units for row in unit.ledger]
    if not rows:
        return []
    counts = Counter(row.reason for row in rows)
    whole = sum(unit.source.frames for unit in units) if video else len(rows)
    whole = max(whole, len(rows))
    steps = [FunnelStep("decoded" if video else "considered", whole, 100.0, [])]
    left = len(rows)
    if video:
        between = [("", "between samples", whole - left)] if whole > left else []
        steps.append(FunnelStep("considered", left, _share(left, whole), between))
    for name, reasons in asked:
        lost = [(reason, REASONS[reason][0], counts[reason]) for reason in reasons if counts[reason]]
        left -= sum(number for _, _, number in lost)
        if lost or name == asked[-1][0]:
            steps.append(FunnelStep(name, left, _share(left, whole), lost))
    return steps


def _share(part: int, whole: int) -> float:
    return round(100 * part / whole, 2)


SUMMARY_SECTION = Section("summary", "Overview", make_summary)


@dataclass(frozen=True)
class Origin:
    """One artifact's origin, as named lists of names and values."""

    name: str
    made_by: str
    fingerprint: str
    groups: list[tuple[str, list[tuple[str, str]]]]


def make_provenance(edition: Edition) -> Mapping[str, Any] | None:
    """Origins of all artifacts, the last one first, then of the evaluations shown and of the runs in them; None without any."""
    origins = [_origin(stage) for stage in reversed(edition.chain.stages) if stage.sha256]
    origins += [_provenance_of(one, f"{RESULTS}/{one.path.name}") for one in edition.evaluations]
    origins += [_provenance_of(run, f"{RUNS}/{run.path.name}") for run in _runs(edition)]
    return {"origins": origins} if origins else None


def _runs(edition: Edition) -> Iterator[Artifact]:
    """The runs that were evaluated and still lie in the project as they were."""
    parents = {one.name: one for evaluation in edition.evaluations for one in evaluation.manifest.parents}
    for name, parent in parents.items():
        folder = edition.chain.project / RUNS / name
        if parent.kind == RUN and (folder / MANIFEST).is_file() and open_artifact(folder).sha256 == parent.sha256:
            yield open_artifact(folder)


def _origin(stage: ChainStage) -> Origin:
    if stage.manifest is None:
        return Origin(stage.name, stage.made_by, stage.sha256, [])
    return Origin(stage.name, stage.made_by, stage.sha256, _groups(stage.manifest))


def _provenance_of(artifact: Artifact, name: str) -> Origin:
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


PROVENANCE_SECTION = Section("provenance", "Provenance", make_provenance)
