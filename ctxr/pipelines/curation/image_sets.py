"""Units become an artifact of image sets: merged tables, splits and counts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ctxr.datasets.changes import changed
from ctxr.datasets.splits import assign_splits, find_leakage
from ctxr.engine.progress import Progress
from ctxr.engine.stage import Stage
from ctxr.store.artifacts import Artifact, Content
from ctxr.store.kinds import IMAGE_SETS
from ctxr.store.records import Failure, Split, SplitName
from ctxr.store.tables import write_table
from ctxr.store.units import SourceUnit, merge_units, tidy


class SetsStage(Stage):
    """A stage that writes image sets. An earlier result counts as finished only if its pictures are unmodified too."""

    KIND = IMAGE_SETS
    changed: tuple[Sequence[str], Sequence[str]] = ((), ())
    """Files of the earlier result that were modified, and their units."""

    def changed_files(self, artifact: Artifact) -> list[str]:
        """Tables, arrays and pictures."""
        self.changed = files, _ = changed(artifact)
        return files


def complete(
    out: Path,
    units: Mapping[str, SourceUnit],
    failures: Sequence[Failure],
    progress: Progress,
    *,
    models: Mapping[str, Any],
    published: Mapping[str, SplitName],
    salt: str,
) -> Content:
    """Merge units into the tables of the artifact, assign splits, and remove leftovers.

    `published` are the splits of groups that are fixed already; the others are assigned by hash with `salt`.
    """
    files = merge_units(out, units.values())
    write_table(out / "failures.jsonl", failures)
    groups = {image.group for unit in units.values() for image in unit.images}
    splits = assign_splits(groups, published, salt)
    write_table(out / "splits.jsonl", splits)
    tidy(out, units)
    counts = count(units, failures, splits)
    if counts["leaking_images"]:
        shared = f"sets of different splits share {counts['leaking_images']} pictures"
        progress.warn(f"{shared}: albums that belong together need one split, see --splits")
    return Content([*files, "failures.jsonl", "splits.jsonl"], counts, dict(models))


def count(units: Mapping[str, SourceUnit], failures: Sequence[Failure], splits: Sequence[Split]) -> dict[str, Any]:
    """The counts of an artifact of image sets: sources, sets, and rejected frames by reason."""
    all_units = units.values()
    sets = [image_set for unit in all_units for image_set in unit.sets]
    ledger = [row for unit in all_units for row in unit.ledger]
    reasons = Counter(row.reason for row in ledger if row.reason)
    side = {row.group: row.split for row in splits}
    images = {image.id: image for unit in all_units for image in unit.images}
    leakage = find_leakage(sets, images, {image_set.id: side[image_set.group] for image_set in sets})
    kinds = Counter(unit.source.kind for unit in all_units)
    return {
        "videos": kinds["video"],
        "albums": kinds["photos"],
        "failed": len(failures),
        "frames": sum(unit.source.frames for unit in all_units if unit.source.kind == "video"),
        "photos": sum(unit.source.frames for unit in all_units if unit.source.kind == "photos"),
        "shots": sum(unit.source.shots or 0 for unit in all_units),
        "considered": len(ledger),
        "embedded": sum(row.row is not None for row in ledger),
        "measured": sum(len(unit.facts) for unit in all_units),
        "sets": len(sets),
        "video_sets": sum(image_set.kind == "video" for image_set in sets),
        "photo_sets": sum(image_set.kind == "photos" for image_set in sets),
        "images": len(images),
        "reasons": dict(sorted(reasons.items())),
        "splits": dict(sorted(Counter(side[image_set.group] for image_set in sets).items())),
        "leaking_groups": len(leakage.groups),
        "leaking_images": len(leakage.images),
    }
