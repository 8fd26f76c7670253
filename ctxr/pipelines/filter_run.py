"""The work behind `ctxr filter`: every unit picked again with quality in force."""

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxr.data.artifacts import MANIFEST, Artifact, Parent
from ctxr.data.hashing import sha256_file, sha256_of
from ctxr.data.records import Failure
from ctxr.data.sources import Found, find_sources
from ctxr.data.tables import read_table
from ctxr.data.units import Stamp, Unit, read_stamp, read_unit
from ctxr.data.whereabouts import place_of
from ctxr.errors import DataError
from ctxr.pipelines.build_run import complete
from ctxr.pipelines.build_sets import limits_of
from ctxr.pipelines.fact_cache import FactCache
from ctxr.pipelines.filter import Filter
from ctxr.pipelines.photo_pool import reopen_pool
from ctxr.pipelines.photo_units import PhotoPicking, pick_photos
from ctxr.pipelines.picking import Picking
from ctxr.pipelines.quality import Meter, forget_other_measures
from ctxr.pipelines.talk import Talk
from ctxr.pipelines.video_unit import Embedder, pick_again

if TYPE_CHECKING:
    from ctxr.models.encode import Encoder


def refilter(config: Filter, artifact: Artifact, out: Path, parents: Sequence[Parent], talk: Talk) -> None:
    """Make or complete the artifact `out` from the finished sets in `artifact`. The caller holds the lock of `out`."""
    (out / MANIFEST).unlink(missing_ok=True)
    models, built = artifact.manifest.models, artifact.manifest.config
    meter = Meter(limits_of(config), config.brisque_weights, config.ocr)
    selection = models["selection"]
    picking = Picking(selection["threshold"], selection["set_size"], selection["margin"], meter)
    embedder = _embedder(models["encoder"], built, config, talk)
    units = {parent.name: read_unit(artifact.path, parent.name) for parent in _present(artifact)}
    done: dict[str, Unit] = {}
    videos = [unit for unit in units.values() if unit.source.kind == "video"]
    albums = [unit for unit in units.values() if unit.source.kind == "photos"]

    def stamp_of(unit: Unit) -> Stamp:
        select = [unit.stamp.scan, unit.stamp.select, vars(meter.limits)]
        return Stamp(unit.stamp.scan, sha256_of(select), meter.stamps())

    def pick(unit: Unit) -> Unit:
        name = unit.source.name
        if read_stamp(out, name) == stamp_of(unit):
            return read_unit(out, name)
        return pick_again(
            out,
            unit,
            artifact.path,
            _Whereabouts(artifact.path, config.videos).of(unit),
            stamp_of(unit),
            picking,
            embedder,
            FactCache.beside(out, name, unit.source.sha256),
        )

    workers = config.workers or max(1, os.cpu_count() or 2)
    with talk.progress("filter videos", len(videos)) as task, ThreadPoolExecutor(workers) as pool:
        jobs = [pool.submit(pick, unit) for unit in videos]
        try:
            for job in as_completed(jobs):
                unit = job.result()
                done[unit.source.name] = unit
                task.advance()
        except BaseException:
            for job in jobs:
                job.cancel()
            raise
    if albums:
        stamp = stamp_of(albums[0])
        if all(read_stamp(out, unit.source.name) == stamp for unit in albums):
            done |= {unit.source.name: read_unit(out, unit.source.name) for unit in albums}
        else:
            done |= _photos(artifact, albums, config, out, stamp, picking, talk)
    failures = read_table(artifact.path / "failures.jsonl", Failure)
    described = {"encoder": models["encoder"], "selection": selection, "quality": meter.describe()}
    complete(out, "filter", config.result_config(), parents, done, failures, described, config, talk)


def _present(artifact: Artifact) -> list[Parent]:
    """Sources of the artifact that gave a unit."""
    return [parent for parent in artifact.manifest.parents if (artifact.path / "sources" / parent.name).is_dir()]


def _photos(
    artifact: Artifact, albums: Sequence[Unit], config: Filter, out: Path, stamp: Stamp, picking: Picking, talk: Talk
) -> dict[str, Unit]:
    whereabouts = _Whereabouts(artifact.path, config.videos)
    found = [whereabouts.album(unit) for unit in albums]
    pool = reopen_pool(found, albums)
    known = {
        f"{unit.source.name}/{row.index}": row
        for unit in albums
        for row in forget_other_measures(unit.facts, unit.stamp.measures, stamp.measures)
    }
    by_id = {photo.id: known[key] for photo in pool.photos if (key := f"{photo.album.name}/{photo.position}") in known}
    built = artifact.manifest.config
    photo_picking = PhotoPicking(picking.set_size, built["sample"], built["seed"], picking.meter)
    with talk.progress("filter photos", len(pool.photos)) as task:
        made = pick_photos(out, pool, found, stamp, photo_picking, by_id, task.advance)
    return {unit.source.name: unit for unit in made}


class _Whereabouts:
    """Finds the sources of an artifact again: where they were, or among the files of another folder, by content."""

    def __init__(self, artifact: Path, moved_to: Path | None) -> None:
        self._artifact, self._moved_to = artifact, moved_to

    def of(self, unit: Unit) -> Path:
        """The video of a unit. It need not exist until a frame has to be decoded."""
        if self._moved_to is not None:
            return self._by_content(unit).path
        # a place nobody knows is an error only if a frame has to be decoded
        return place_of(self._artifact, unit.source.sha256) or Path(unit.source.file)

    def album(self, unit: Unit) -> Found:
        """The album of a unit. Raises DataError when a photo of it is gone or was changed."""
        if self._moved_to is not None:
            return self._named(unit, self._by_content(unit).path)
        return self._named(unit, place_of(self._artifact, unit.source.sha256) or Path(unit.source.file))

    def _named(self, unit: Unit, folder: Path) -> Found:
        files = tuple(folder / (row.name or "") for row in unit.ledger)
        try:
            hashes = tuple(sha256_file(file) for file in files)
        except OSError as error:
            raise DataError(
                f"{error.filename or folder} is needed to filter the album {unit.source.name} and cannot be read",
                hint="name the folder that the photos moved to: --videos DIR",
            ) from error
        known = {image.id: image.sha256 for image in unit.images}
        for file, digest in zip(files, hashes, strict=True):
            if known.get(f"{unit.source.name}/{file.name}", digest) != digest:
                raise DataError(f"{file} has changed since the sets were built", hint="run ctxr build-sets again")
        return Found(unit.source.name, "photos", folder, unit.source.sha256, unit.source.bytes, files, hashes)

    def _by_content(self, unit: Unit) -> Found:
        for found in find_sources([str(self._moved_to)]).found:
            if found.sha256 == unit.source.sha256 and found.kind == unit.source.kind:
                return found
        raise DataError(
            f"{self._moved_to} does not hold {unit.source.name} (sha256 {unit.source.sha256[:12]}…)",
            hint="name the folder that it moved to: --videos DIR",
        )


def _embedder(described: dict[str, Any], built: dict[str, Any], config: Filter, talk: Talk) -> Embedder:
    """The encoder that the sets were built with, loaded only if a decision has to be taken again."""

    @cache
    def make() -> "Encoder":
        from ctxr.models.encode import load_encoder

        encoder = load_encoder(described["name"], config.device, built["precision"], warn=talk.warn)
        if encoder.fingerprint != described["fingerprint"]:
            raise DataError(
                f"the encoder {described['name']} is not the one the sets were built with (other weights)",
                hint="run ctxr build-sets again, then filter",
            )
        return encoder

    return Embedder(make, threading.Lock())
