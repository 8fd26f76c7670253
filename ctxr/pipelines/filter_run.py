"""The work behind `ctxr filter`: every unit picked again with quality in force."""

import os
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxr.data.artifacts import MANIFEST, Artifact, Parent, take_manifest
from ctxr.data.atomic import write_bytes
from ctxr.data.hashing import sha256_of
from ctxr.data.records import Failure, Split
from ctxr.data.sources import Found
from ctxr.data.tables import read_table, write_table
from ctxr.data.units import Stamp, Unit, album_files, read_stamp, read_unit, unit_folder
from ctxr.data.whereabouts import place_of
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.pipelines.build_sets import limits_of
from ctxr.pipelines.fact_cache import FactCache
from ctxr.pipelines.filter import Filter
from ctxr.pipelines.footage_again import RESTORE, ByContent
from ctxr.pipelines.photo_pool import reopen_pool
from ctxr.pipelines.photo_units import PhotoPicking, pick_photos
from ctxr.pipelines.picking import Picking
from ctxr.pipelines.quality import Meter, forget_other_measures
from ctxr.pipelines.sets_artifact import complete
from ctxr.pipelines.talk import Silent, Talk
from ctxr.pipelines.video_unit import Embedder, pick_again

if TYPE_CHECKING:
    from ctxr.models.encode import Encoder

MOST_WORKERS = 256


def refilter(
    config: Filter,
    artifact: Artifact,
    out: Path,
    parents: Sequence[Parent],
    talk: Talk,
    clear: Callable[[], None],
) -> None:
    """Make or complete the artifact `out` from the finished sets in `artifact`. The caller holds the lock of `out`; `clear`
    removes from it what must be made anew.

    A video that cannot be used any more costs only itself. It is then no parent of the result, so that the same command tries
    it again. Raises DataError when none can be used, and for an album of which a photo is gone or was changed.
    """
    if not 0 <= config.workers <= MOST_WORKERS:
        raise UsageError(f"--workers {config.workers} is out of range", hint="it is 0 = half the cores")
    _check_built(artifact)
    models, built = artifact.manifest.models, artifact.manifest.config
    meter = Meter(limits_of(config), config.brisque_weights, config.ocr)
    described_quality = meter.describe()
    selection = models["selection"]
    picking = Picking(selection["threshold"], selection["set_size"], selection["margin"], meter)
    units = {parent.name: read_unit(artifact.path, parent.name) for parent in _present(artifact)}
    albums = [unit for unit in units.values() if unit.source.kind == "photos"]
    # the search says nothing: a line of progress is there already when a worker first asks
    sources = ByContent(artifact.path, config.videos, Silent())
    run = _Refilter(config, artifact, out, picking, _embedder(models["encoder"], built, config, talk), sources, talk)
    # everything that can be refused has been: from here on the old result is no longer complete
    finished_before = take_manifest(out)
    clear()
    _videos(run, [unit for unit in units.values() if unit.source.kind == "video"])
    if albums:
        stamps = {unit.source.name: run.stamp(unit) for unit in albums}
        if all(read_stamp(out, name) == stamp for name, stamp in stamps.items()):
            run.done |= {name: read_unit(out, name) for name in stamps}
        else:
            run.done |= _photos(run, albums, stamps)
    failures = [*read_table(artifact.path / "failures.jsonl", Failure), *run.failures]
    if not run.done and run.failures:
        if finished_before:
            write_bytes(out / MANIFEST, finished_before)  # nothing has changed: the old result stays as it was
        else:
            write_table(out / "failures.jsonl", failures)
        first = min(run.failures, key=lambda failure: failure.key())
        more = f" (and {len(run.failures) - 1} more)" if len(run.failures) > 1 else ""
        raise DataError(f"no source could be used: {first.message}{more}", hint=RESTORE)
    if not artifact.is_still_there():
        raise UnfinishedError(f"{artifact.path} was made anew meanwhile", hint="run the same command again")
    failed = {failure.source for failure in run.failures}
    used = [parent for parent in parents if parent.name not in failed]
    described = {"encoder": models["encoder"], "selection": selection, "quality": described_quality}
    # the sides were dealt when the sets were built, and filtering moves nobody
    sides = {row.group: row.split for row in read_table(artifact.path / "splits.jsonl", Split)}
    complete(
        out,
        "filter",
        config.result_config(),
        used,
        run.done,
        failures,
        described,
        sides,
        built.get("salt", "ctxr"),
        talk,
    )


def _check_built(artifact: Artifact) -> None:
    """Whether the sets come from `build-sets`, whose settings are needed to pick again."""
    if artifact.manifest.verb == "filter":
        raise UsageError(
            f"{artifact.path} was made by ctxr filter, which filters only what build-sets made",
            hint="filter the sets themselves again, with all limits in one command",
        )
    models, built = artifact.manifest.models, artifact.manifest.config
    wanted = {"selection": ("threshold", "set_size", "margin", "duplicate"), "encoder": ("name", "fingerprint")}
    missing = [
        f"models.{part}.{name}" for part, names in wanted.items() for name in names if name not in models.get(part, {})
    ]
    missing += [f"config.{name}" for name in ("precision", "sample", "seed") if name not in built]
    if missing:
        raise DataError(f"{artifact.path / MANIFEST} does not say {missing[0]}", hint="run ctxr build-sets again")


@dataclass
class _Refilter:
    """What the workers of one run share."""

    config: Filter
    artifact: Artifact
    out: Path
    picking: Picking
    embedder: Embedder
    sources: ByContent
    talk: Talk
    done: dict[str, Unit] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)

    def stamp(self, unit: Unit) -> Stamp:
        """The stamp of `unit` filtered with the limits in force."""
        meter = self.picking.meter
        select = [unit.stamp.scan, unit.stamp.select, vars(meter.limits)]
        return Stamp(unit.stamp.scan, sha256_of(select), meter.stamps())

    def pick(self, unit: Unit) -> None:
        """Pick the sets of a video again, or take them as an earlier run left them."""
        if self.stopping.is_set():
            return
        name, stamp = unit.source.name, self.stamp(unit)
        if read_stamp(self.out, name) == stamp:
            with suppress(DataError):  # damaged since: it is picked again
                self.done[name] = read_unit(self.out, name)
                return
        try:
            cache = FactCache.beside(self.out, name, unit.source.sha256)
            video = partial(self.sources.video, unit.source)
            self.done[name] = pick_again(
                self.out,
                unit,
                self.artifact.path,
                video,
                stamp,
                self.picking,
                self.embedder,
                cache,
                stopping=self.stopping.is_set,
            )
        except _OtherEncoder:
            raise
        except DataError as error:
            if self.stopping.is_set():
                return
            reason = getattr(error, "reason", "unreadable")
            place = place_of(self.artifact.path, unit.source.sha256) or unit.source.file
            self.failures.append(Failure(name, str(place), reason, error.message, self._retry()))
            self.talk.warn(f"{error.message} ({error.hint or RESTORE})")

    def _retry(self) -> str:
        default, config = Filter(), self.config
        typed = ["ctxr", "filter"]
        for name in config.result_config():
            value = getattr(config, name, None)
            if hasattr(default, name) and value != getattr(default, name):
                typed += [f"--{name.replace('_', '-')}", str(value)]
        return shlex.join(typed)


def _videos(run: _Refilter, videos: Sequence[Unit]) -> None:
    workers = run.config.workers or max(1, (os.cpu_count() or 2) // 2)
    with run.talk.progress("filter videos", len(videos)) as task, ThreadPoolExecutor(workers) as pool:
        jobs = [pool.submit(run.pick, unit) for unit in videos]
        try:
            for job in as_completed(jobs):
                job.result()
                task.advance()
        except BaseException:
            run.stopping.set()
            for job in jobs:
                job.cancel()
            raise


def _present(artifact: Artifact) -> list[Parent]:
    """Sources of the artifact that gave a unit."""
    return [parent for parent in artifact.manifest.parents if unit_folder(artifact.path, parent.name).is_dir()]


def _photos(run: _Refilter, albums: Sequence[Unit], stamps: Mapping[str, Stamp]) -> dict[str, Unit]:
    artifact, picking = run.artifact, run.picking
    found = [_album(run.sources, unit) for unit in albums]
    pool = reopen_pool(found, albums)
    known = {
        f"{unit.source.name}/{row.index}": row
        for unit in albums
        for row in forget_other_measures(unit.facts, unit.stamp.measures, picking.meter.stamps())
    }
    by_id = {photo.id: known[key] for photo in pool.photos if (key := f"{photo.album.name}/{photo.position}") in known}
    built = artifact.manifest.config
    photo_picking = PhotoPicking(
        picking.set_size,
        artifact.manifest.models["selection"]["duplicate"],
        built["sample"],
        built["seed"],
        picking.meter,
    )
    with run.talk.progress("filter photos", len(pool.photos)) as task:
        made = pick_photos(run.out, pool, found, stamps, photo_picking, by_id, task.advance)
    return {unit.source.name: unit for unit in made}


def _album(sources: ByContent, unit: Unit) -> Found:
    """The album of a unit. Raises DataError when a photo of it is gone or was changed."""
    source, folder = unit.source, sources.album(unit.source)
    files, hashes, wrong = album_files(unit, folder)
    if wrong:
        raise DataError(f"the album {source.name} cannot be filtered: {wrong[0]}", hint=RESTORE)
    return Found(source.name, "photos", folder, source.sha256, source.bytes, tuple(files), tuple(hashes))


class _OtherEncoder(DataError):
    """The encoder is not the one of the sets: that is no fault of a single video."""


def _embedder(described: dict[str, Any], built: dict[str, Any], config: Filter, talk: Talk) -> Embedder:
    """The encoder that the sets were built with, loaded only if a decision has to be taken again."""

    @cache
    def make() -> "Encoder":
        from ctxr.models.encode import load_encoder

        encoder = load_encoder(described["name"], config.device, built["precision"], warn=talk.warn)
        if encoder.fingerprint != described["fingerprint"]:
            raise _OtherEncoder(
                f"the encoder {described['name']} is not the one the sets were built with (other weights)",
                hint="run ctxr build-sets again, then filter",
            )
        return encoder

    return Embedder(make, threading.Lock())
