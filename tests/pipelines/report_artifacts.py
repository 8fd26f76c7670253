"""Artifacts of image sets for tests of the report, written in milliseconds: no video is decoded, no encoder is loaded."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from PIL import Image as Pillow

from ctxr.datasets.splits import assign_splits
from ctxr.pipelines.curation.image_sets import SetsRun
from ctxr.store.arrays import Vectors, set_distances
from ctxr.store.artifacts import Parent, finish, open_artifact
from ctxr.store.hashing import sha256_file
from ctxr.store.kinds import IMAGE_SETS as KIND
from ctxr.store.records import Facts, Failure, Image, ImageSet, LedgerReason, LedgerRow, Shot, Source
from ctxr.store.units import SourceUnit, UnitKeys, write_unit

SIZE = 4
"""Images in a set."""

STAMP = UnitKeys("scan", "select", {})


def paint(file: Path, seed: int, width: int = 48, height: int = 32) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    coarse = np.random.default_rng(seed).integers(0, 255, (4, 6, 3)).astype(np.uint8)
    Pillow.fromarray(coarse).resize((width, height), Pillow.Resampling.BICUBIC).save(file, quality=90)


def unit_vectors(count: int, seed: int) -> Vectors:
    drawn = np.random.default_rng(seed).normal(size=(count, 8))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), np.float32)


def image_set(name: str, kind: str, images: Sequence[str], source: str, shot: int | None, vectors: Vectors) -> ImageSet:
    closest, mean = set_distances(vectors)
    return ImageSet(name, kind, tuple(images), source, source, shot, closest, mean)


def video_unit(out: Path, name: str, sets: int = 1, seed: int = 0, measured: bool = True) -> SourceUnit:
    """A video of `sets` shots, each with a set, a near-still, a low-quality and a too close frame; pictures are written."""
    vectors = unit_vectors(sets * (SIZE + 2), seed)
    ledger, facts, found, images, shots = [], [], [], [], []
    index = row = 0
    for shot in range(sets):
        start, chosen = index, row
        names = []
        for place in range(SIZE + 3):
            time = Fraction(index, 5)
            dropped: tuple[LedgerReason, ...] = ("near_still", "low_quality", "too_close")
            fate = None if place < SIZE else dropped[place - SIZE]
            value = {"near_still": 1.5, "low_quality": 0.8}.get(fate or "")
            embedded = fate != "near_still"
            path = f"images/{name}-shot{shot}_0/img{index}.jpg" if fate is None else f"dropped/{name}/img{index}.jpg"
            if fate is None:
                paint(out / path, seed + index)
                images.append(Image(f"{name}/img{index}", path, sha256_file(out / path), name, 48, 32, index, time))
                names.append(f"{name}/img{index}")
            if measured and fate in (None, "low_quality"):
                paint(out / path, seed + index)
                facts.append(Facts(name, index, path, "ab" * 32, 48, 32, value or 0.3, 0.01 * (place % 2), 1, 90.0))
            ledger.append(
                LedgerRow(
                    name,
                    index,
                    time,
                    shot,
                    row=row if embedded else None,
                    gate=5.0 if embedded else 1.5,
                    image_set=f"{name}-shot{shot}_0" if fate is None else None,
                    reason=fate,
                    value=value,
                    nearest=start if fate == "too_close" else None,
                    distance=0.05 if fate == "too_close" else None,
                )
            )
            index, row = index + 1, row + embedded
        found.append(image_set(f"{name}-shot{shot}_0", "video", names, name, shot, vectors[chosen : chosen + SIZE]))
        shots.append(Shot(name, shot, start, Fraction(start, 5), index, Fraction(index, 5)))
    source = Source(
        name, "video", f"{name}.mp4", "cd" * 32, 1000, 48, 32, Fraction(5), Fraction(index, 5), index * 5, index, sets
    )
    return SourceUnit(STAMP, source, shots, ledger, facts, found, images, vectors, vectors[:0])


def photo_unit(out: Path, name: str, photos: int, sets: int, seed: int = 0) -> SourceUnit:
    """An album, of which photo after photo, over and over, is the anchor of one of `sets` sets; pictures are written."""
    vectors = unit_vectors(photos, seed)
    files = [f"p{number:04}.jpg" for number in range(photos)]
    for number, file in enumerate(files):
        paint(out / "images" / name / file, seed + number)
    images = [
        Image(f"{name}/{file}", f"images/{name}/{file}", sha256_file(out / "images" / name / file), name, 48, 32)
        for file in files
    ]
    found = []
    for number in range(sets):
        members = [(number + step * (1 + number // photos)) % photos for step in range(SIZE)]
        members = [*dict.fromkeys([*members, *range(photos)])][:SIZE]
        names = [images[member].id for member in members]
        found.append(image_set(f"{name}-photo-{number:04}", "photos", names, name, None, vectors[members]))
    ledger = [
        LedgerRow(name, number, None, None, file, row=number, image_set=f"{name}-photo-{number:04}")
        for number, file in enumerate(files)
    ]
    source = Source(name, "photos", name, "ef" * 32, 1000, frames=photos, considered=photos)
    return SourceUnit(STAMP, source, [], ledger, [], found, images, vectors, vectors[:0])


def write(
    out: Path,
    units: Sequence[SourceUnit],
    made_from: Path | None = None,
    failures: Sequence[Failure] = (),
    config: dict[str, object] | None = None,
) -> Path:
    """A finished artifact of these units: built, or filtered from the artifact `made_from`."""
    (out / "sources").mkdir(parents=True, exist_ok=True)
    (out / ".ctxr").touch()
    for unit in units:
        write_unit(out, unit)
    parents = [Parent(unit.source.name, unit.source.kind, unit.source.sha256) for unit in units]
    if made_from is not None:
        parents.append(Parent("image_sets", KIND, open_artifact(made_from).sha256))
    settings = {"still_below": 4.0, "rate": 5.0} if made_from is None else {"brisque": 0.65, "max_text": 0.02}
    models = {
        "encoder": {"name": "ctxr-tiny", "fingerprint": "12" * 32},
        "selection": {"threshold": 0.15, "margin": 0.0, "set_size": SIZE, "frames": "every"},
    }
    verb = "build-sets" if made_from is None else "filter"
    by_name = {unit.source.name: unit for unit in units}
    splits = {row.group: row.split for row in assign_splits(dict.fromkeys(by_name, True), salt="salt")}
    job: Any = SimpleNamespace(units=by_name, earlier=failures, failures=(), splits=splits, footage=(), models=models)
    job.more, job.videos, job.artifact = {}, (), out
    content = SetsRun.content(job, first=False)
    finish(out, kind=KIND, verb=verb, config=settings | (config or {}), parents=parents, content=content)
    return out


def project(work: Path, videos: int = 2, sets: int = 3, photos: int = 8) -> Path:
    """A project folder with `sets` and `filtered`, from some videos and an album; returns `work`."""
    for name in ("sets", "filtered"):
        out = work / name
        units = [video_unit(out, f"clip{number}", sets, 100 * number, name == "filtered") for number in range(videos)]
        if photos:
            units.append(photo_unit(out, "album", photos, photos, 7))
        write(out, units, work / "sets" if name == "filtered" else None)
    return work
