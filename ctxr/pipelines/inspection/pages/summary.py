"""Sections on what came out at each step, and on where everything comes from."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from ctxr.datasets.splits import SPLITS
from ctxr.errors import plural, some
from ctxr.media.sources import VIDEO_SUFFIXES
from ctxr.models.hub import STAND_INS
from ctxr.pipelines.inspection.pages.chain import ALONE, runs_as_evaluated
from ctxr.pipelines.inspection.pages.edition import REASONS, PageBuilder
from ctxr.pipelines.inspection.pages.plots import axis_number
from ctxr.problems.results import RESULTS
from ctxr.store.artifacts import Manifest
from ctxr.store.kinds import RUNS
from ctxr.store.records import SOURCE_KINDS, LedgerReason
from ctxr.store.tables import grouped
from ctxr.store.units import SourceUnit

Steps = Sequence[tuple[str, Sequence[LedgerReason]]]
Lost = tuple[str, str, int, str]  # colour, reason, how many, and where on the page they are

VIDEO_STEPS: Steps = (
    ("embedded", ("near_still",)),
    ("different enough", ("too_close",)),
    ("good enough", ("low_quality", "too_much_text", "too_small", "rejected_by_person")),
    ("in a full set", ("set_incomplete",)),
)
PHOTO_STEPS: Steps = (
    ("readable", ("unreadable", "worker_died")),
    ("drawn", ("not_sampled",)),
    ("seen once", ("duplicate",)),
    ("good enough", ("low_quality", "too_much_text", "too_small", "rejected_by_person")),
    ("anchors a set", ("too_few_neighbours",)),
)
"""Steps of the two procedures after `considered`, each with the reasons that end there, in the order they are asked."""


CURES: Mapping[LedgerReason, str] = {
    "near_still": "--still-below 0, --frames every, or footage with more motion",
    "too_close": "a lower --threshold, or --frames every",
    "set_incomplete": "a lower --threshold, a smaller --set-size, or longer shots",
    "low_quality": "a higher --brisque",
    "too_much_text": "a higher --max-text",
    "too_small": "a lower --min-size",
}
"""What gives sets of a video most of whose frames fell out for a reason."""


def make_summary(edition: PageBuilder) -> Mapping[str, object]:
    """Headline, what picked the sets, their splits, and why videos gave none."""
    chain = edition.chain
    by_kind = {kind: [unit for unit in chain.units if unit.source.kind == kind] for kind in SOURCE_KINDS}
    described = list[tuple[str, int, int]]()
    held = {split: int((chain.built or chain.last).number("counts", "splits", split) or 0) for split in SPLITS}
    if (dataset := chain.dataset) is not None:
        # sets and descriptions of each split that has sets, last of sets in none
        split_of: dict[str, str] = {one.id: dataset.split_of(one) or "" for one in dataset.sets}
        queries = Counter(split_of[query.image_set] for query in dataset.queries.values() if query.labels is None)
        counts = Counter(split_of.values())
        held = held if chain.built else {split: counts[split] for split in SPLITS}
        described = [(split or "no split", counts[split], queries[split]) for split in (*SPLITS, "") if counts[split]]
    albums = by_kind["photos"]
    photos = f"from {plural(sum(unit.source.frames for unit in albums), 'photo', form=',')}" if albums else ""
    known = {one.name for one in chain.dataset.sources} if chain.dataset and not chain.built else None
    if known is not None and {unit.source.name for unit in albums} - known:
        photos = "of photos"  # of which the dataset holds copies alone
    # why videos gave no set, by the reason for which most of their frames fell out
    without = [unit for unit in by_kind["video"] if not unit.sets]
    fates = [Counter(row.reason for row in unit.ledger if row.reason and row.reason in CURES) for unit in without]
    own = zip(fates, (unit.source.name for unit in without), strict=True)
    barren = grouped((counts.most_common(1)[0][0], name) for counts, name in own if counts)
    return {
        "sets": {kind: sum(len(unit.sets) for unit in units) for kind, units in by_kind.items()},
        "total": sum(len(unit.sets) for unit in chain.units),
        "subject": edition.subject,
        "videos": _videos(by_kind["video"], edition),
        "barren": [(REASONS[reason][0], some(names), CURES[reason]) for reason, names in barren.items()],
        "photos": photos,
        "described": described,
        "splits": held,
        "encoder": chain.encoder,
        "threshold": axis_number(chain.threshold or 0),
        "stand_in": STAND_INS.get(chain.encoder, ""),
        "evaluated": edition.evaluated if chain.last.kind == ALONE else "",
        "notes": chain.notes,
        "missing": edition.pictures,
        "stages": chain.stages,
        "leak": chain.leak,
    }


def make_steps(edition: PageBuilder) -> Mapping[str, object] | None:
    """The steps for frames and for photos, and a row of figures per artifact; None without any."""
    chain = edition.chain
    funnels = [
        (title, steps)
        for title, kind, checks in (("Frames of videos", "video", VIDEO_STEPS), ("Photos", "photos", PHOTO_STEPS))
        if (steps := _steps([unit for unit in chain.units if unit.source.kind == kind], checks, kind == "video"))
    ]
    if written := [one for one in chain.descriptions.values() if one.author]:
        lost = Counter(one.dropped for one in written if one.dropped)
        kept = len(written) - lost.total()
        dropped = [("none", reason.replace("_", " "), count, "#sets?votes=dropped") for reason, count in lost.items()]
        steps = [_step("written", len(written), len(written), []), _step("kept by people", kept, len(written), dropped)]
        funnels.append((f"{edition.subject.text}s".capitalize(), steps))
    names = ["sets", "images", "considered", "embedded", "measured", "failed"]
    if chain.last is not chain.built:
        tables = (*names, "texts", "queries", "judgments")
        names = [name for name in tables if any(name in stage.counts for stage in chain.stages)]
    excluded = [stage.reasons for stage in chain.stages]
    rows = [(name, [stage.counts.get(name, "") for stage in chain.stages]) for name in names]
    reasons = [
        (reason, name, [reasons.get(reason, 0) if reasons else "" for reasons in excluded])
        for reason, (name, _, _) in REASONS.items()
        if any(reason in reasons for reasons in excluded)
    ]
    shown = {"stages": chain.stages, "funnels": funnels, "rows": rows, "reasons": reasons, "subject": edition.subject}
    return shown if funnels or rows else None


def _videos(units: Sequence[SourceUnit], edition: PageBuilder) -> str:
    """How many videos gave sets, as in `3 of 8 videos (1 failed, 4 gave none)`; empty without any."""
    read = {unit.source.name for unit in edition.chain.units}
    failed = {
        row.source
        for stage in edition.chain.stages
        for row in stage.failures
        if row.source not in read and PurePosixPath(row.path).suffix.lower() in VIDEO_SUFFIXES
    }
    gave = sum(bool(unit.sets) for unit in units)
    total = len(units) + len(failed)
    others = [f"{len(failed):,} failed"] * bool(failed)
    others += [f"{len(units) - gave:,} gave none"] * (gave < len(units))
    if not total:
        return ""
    videos = plural(total, "video", form=",")
    return f"{gave:,} of {videos} ({', '.join(others)})" if others else videos


def _steps(units: Sequence[SourceUnit], checks: Steps, video: bool) -> list[dict[str, object]]:
    """From what the sources hold to what is in a set, without steps at which nothing could fall out: the number that is `left`, also
    in `percent` of the first, and by reason how many were `lost`, with a link to them."""
    rows = [row for unit in units for row in unit.ledger]
    if not rows:
        return []
    counts = Counter(row.reason for row in rows)
    left = len(rows)
    whole = max(sum(unit.source.frames for unit in units), left) if video else left
    steps = [_step("decoded" if video else "considered", whole, whole, [])]
    if video:
        between = [("none", "between samples", whole - left, "")]
        steps.append(_step("considered", left, whole, between if whole > left else []))
    for name, reasons in checks:
        lost: list[Lost] = [
            (reason, REASONS[reason][0], counts[reason], f"#dropped?reason={reason}")
            for reason in reasons
            if counts[reason]
        ]
        left -= sum(number for _, _, number, _ in lost)
        if lost or name == checks[-1][0]:
            steps.append(_step(name, left, whole, lost))
    return steps


def _step(name: str, left: int, whole: int, lost: Sequence[Lost]) -> dict[str, object]:
    return {"name": name, "left": left, "percent": round(100 * left / whole, 2), "lost": lost}


def make_provenance(edition: PageBuilder) -> Mapping[str, object] | None:
    """Origins of all artifacts, the last one first, then of the evaluations shown and of the runs in them; None without any."""
    stages = [stage for stage in reversed(edition.chain.stages) if stage.sha256]
    origins = [(stage.name, stage.command, stage.sha256, stage.manifest) for stage in stages]
    parents = {parent.name: parent for evaluation in edition.evaluations for parent in evaluation.manifest.parents}
    artifacts = [(RESULTS, evaluation) for evaluation in edition.evaluations]
    artifacts += [(RUNS, run) for run in runs_as_evaluated(edition.chain.project, parents.values())]
    origins += [
        (f"{folder}/{one.path.name}", f"ctxr {one.manifest.verb}", one.sha256, one.manifest)
        for folder, one in artifacts
    ]
    rows = [
        {"name": name, "made_by": command, "fingerprint": fingerprint, "groups": _groups(manifest)}
        for name, command, fingerprint, manifest in origins
    ]
    return {"origins": rows} if rows else None


def _groups(manifest: Manifest | None) -> list[tuple[str, list[tuple[str, str]]]]:
    """Named lists of names and values; none of a release."""
    if manifest is None:
        return []
    models: list[tuple[str, list[tuple[str, str]]]] = []
    for name, value in manifest.models.items():
        if name == "quality" and isinstance(value, dict):
            models += [(f"Quality: {one}", _flat(facts)) for one, facts in value.items()]
        else:
            models.append((name.capitalize(), _flat(value if isinstance(value, dict) else {name: value})))
    packages = [(name, version or "not installed") for name, version in manifest.packages.items()]
    groups = [
        ("Settings", _flat(manifest.config)),
        *models,
        ("Packages", [("ctxr", manifest.ctxr), *packages]),
        ("Made from", [(f"{parent.name} ({parent.kind})", parent.sha256) for parent in manifest.parents]),
        ("Tables", [(name, entry.sha256) for name, entry in manifest.files.items() if "/" not in name]),
    ]
    return [group for group in groups if group[1]]


def _flat(values: Mapping[str, object], before: str = "") -> list[tuple[str, str]]:
    """Nested settings as dotted names with values in words; what was not set is left out."""
    rows: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{before}{name}.")
        elif isinstance(value, bool):
            rows.append((f"{before}{name}", "yes" if value else "no"))
        elif value is not None:
            words = value if isinstance(value, list) else [axis_number(value) if isinstance(value, float) else value]
            rows.append((f"{before}{name}", ", ".join(map(str, words))))
    return rows
