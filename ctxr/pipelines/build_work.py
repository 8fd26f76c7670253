"""What the workers of `build-sets` share, and its work on photos."""

import shlex
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ctxr.data.artifacts import package_versions
from ctxr.data.hashing import sha256_of
from ctxr.data.records import Failure
from ctxr.data.sources import Found
from ctxr.data.units import Stamp, Unit, read_stamp, read_unit
from ctxr.errors import DataError
from ctxr.pipelines.build_sets import BuildSets
from ctxr.pipelines.photo_pool import gather_pool, unreadable_photos
from ctxr.pipelines.photo_units import DUPLICATE_SHARE, PhotoPicking, pick_photos
from ctxr.pipelines.picking import Picking
from ctxr.pipelines.scan import ScanOptions
from ctxr.pipelines.talk import Talk
from ctxr.pipelines.video_unit import Embedder

if TYPE_CHECKING:
    from ctxr.models.encode import Encoder


@dataclass
class Build:
    """What the workers of one run share."""

    config: BuildSets
    out: Path
    talk: Talk
    encoder: "Encoder"
    embedder: Embedder
    picking: Picking
    scan_options: ScanOptions
    units: dict[str, Unit] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)

    @property
    def duplicate(self) -> float:
        """Distance below which two photos are one picture: the encoder's scale, whatever threshold was asked for."""
        return self.encoder.threshold * DUPLICATE_SHARE

    def stamp(self, content: str, pool: object = None) -> Stamp:
        """The stamp of a unit made from `content` with the settings in force; `pool` is what else its sets were picked from."""
        options = {name: value for name, value in vars(self.scan_options).items() if name not in _NO_EFFECT}
        scan = sha256_of([content, options, self.encoder.fingerprint, self.encoder.precision, package_versions()])
        picking = self.picking
        limits = vars(picking.meter.limits)
        select = [
            picking.threshold,
            picking.set_size,
            self.duplicate,
            limits,
            self.config.sample,
            self.config.seed,
            pool,
        ]
        return Stamp(scan, sha256_of(select), picking.meter.stamps())

    def fail(self, found: Found, reason: str, message: str, hint: str) -> None:
        """Note a source that gave nothing."""
        self.failures.append(Failure(found.name, str(found.path), reason, message, self.retry()))
        self.talk.warn(f"{message}{f' ({hint})' if hint else ''}")

    def fail_photo(self, album: Found, position: int, message: str) -> None:
        """Note a photo that could not be read; the others of its album go on."""
        file = album.photos[position]
        self.failures.append(Failure(album.name, str(file), "unreadable", message, self.retry()))
        self.talk.warn(message)

    def retry(self) -> str:
        """The command that tries failed sources again: options that decide the result, not where things lie."""
        default = BuildSets()
        typed = ["ctxr", "build-sets", *self.config.sources]
        for name in self.config.result_config():
            value = getattr(self.config, name, None)
            if hasattr(default, name) and value != getattr(default, name):
                typed += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
        if self.config.splits is not None:  # what decides the result is the file's content, but it is typed as a path
            typed += ["--splits", str(self.config.splits)]
        return shlex.join([*typed, "--retry-failed"])


_NO_EFFECT = frozenset({"threads", "stall_seconds", "time_limit"})
"""Scan options that change how long a scan takes, not what it gives; the memory limit bounds how many frames are held."""


def readable_unit(out: Path, name: str) -> Unit | None:
    """A unit to pick from again; None if it was damaged, then the video is scanned anew."""
    try:
        return read_unit(out, name)
    except DataError:
        return None


def build_photos(run: Build, albums: Sequence[Found]) -> None:
    """Every album of the run, as units in `run.units`: all are one pool, in which each photo finds its neighbours."""
    if not albums:
        return
    contents = [[album.name, album.sha256] for album in albums]
    stamps = {album.name: run.stamp(album.sha256, contents) for album in albums}
    there = {album.name: read_stamp(run.out, album.name) for album in albums}
    known: dict[str, Unit] = {}
    for name, stamp in stamps.items():
        before = there[name]
        if before is not None and before.scan == stamp.scan and (unit := readable_unit(run.out, name)):
            known[name] = unit
    if there == stamps and known.keys() == stamps.keys():
        for album, position, message in unreadable_photos(albums, list(known.values())):
            run.fail_photo(album, position, message)
        run.units.update(known)
        return
    with run.talk.progress("photos", sum(len(album.photos) for album in albums)) as task:
        scans = {name: stamp.scan for name, stamp in stamps.items()}
        pool = gather_pool(run.out, albums, known, scans, run.embedder, task.advance)
    for album, position, message in pool.unreadable:
        run.fail_photo(album, position, message)
    picking = PhotoPicking(
        run.picking.set_size,
        run.duplicate,
        run.config.sample,
        run.config.seed,
        run.picking.meter,
        run.config.neighbours,
    )
    with run.talk.progress("photo sets", len(pool.photos)) as task:
        made = pick_photos(run.out, pool, albums, stamps, picking, {}, task.advance)
    run.units.update({unit.source.name: unit for unit in made})
    if not any(unit.sets for unit in made):
        run.talk.warn(
            f"no photo set: {len(pool.photos)} different photos are too few for sets of {run.picking.set_size}"
        )
