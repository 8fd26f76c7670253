"""`ctxr doctor`: what this machine can do, and whether an artifact is whole, up to its sources."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ctxr.errors import CtxrError
from ctxr.pipelines.talk import Silent, Talk

if TYPE_CHECKING:
    from ctxr.data.records import Source

MOST_NAMED = 5
"""Broken files of one kind that are named; the rest is counted."""


@dataclass(frozen=True)
class Doctor:
    """Configuration of `ctxr doctor`; a field's text is its help."""

    artifact: Path | None = None
    """Artifact folder to check, up to its sources; without it the machine is looked at."""
    workdir: Path = Path("work")
    """Project folder, whose disk is looked at."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        state: `ok`, `note` (works, but worth knowing) or `problem`.
        cure: one command or one edit; empty when nothing has to be done.
    """

    name: str
    state: str
    detail: str
    cure: str = ""


def run(config: Doctor, talk: Talk | None = None) -> list[Check]:
    """All checks, in order. Problems are part of the result; the command turns them into exit code 5."""
    if config.artifact is not None:
        return list(check_artifact(config.artifact, talk or Silent()))
    return list(check_machine(config.workdir))


def check_machine(workdir: Path) -> Iterator[Check]:
    """Python, packages, devices, outside programs, encoders, disk."""
    from ctxr.data.artifacts import package_versions

    yield Check("python", "ok", ".".join(map(str, sys.version_info[:3])))
    versions = package_versions()
    for name, found in versions.items():
        if found:
            yield Check(name, "ok", found)
        else:
            yield Check(name, "problem", "not installed", f"pip install {name}")
    yield from _torch_family()
    yield from _programs()
    yield from _encoders()
    yield from _disk(workdir)


def _torch_family() -> Iterator[Check]:
    try:
        from ctxr.models.devices import devices

        yield Check("devices", "ok", ", ".join(devices()))
    except (ImportError, RuntimeError, OSError) as error:
        yield Check(
            "torch",
            "problem",
            f"torch and torchvision do not fit together: {error}",
            "pip install --force-reinstall -c constraints.txt torch torchvision",
        )


def _programs() -> Iterator[Check]:
    tesseract = shutil.which("tesseract")
    if tesseract is None:
        yield Check("tesseract", "problem", "not found: --max-text cannot work", "apt-get install tesseract-ocr")
    else:
        yield Check("tesseract", "ok", _first_line([tesseract, "--version"]))
    ffmpeg = shutil.which("ffmpeg")
    if ffmpeg is None:
        yield Check("ffmpeg", "note", "not found: only --detector ffmpeg needs it", "apt-get install ffmpeg")
    else:
        yield Check("ffmpeg", "ok", _first_line([ffmpeg, "-version"]))


def _first_line(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not answer: {error}"
    return (done.stdout or done.stderr).strip().splitlines()[0]


def _encoders() -> Iterator[Check]:
    from ctxr.models.encode import load_encoder
    from ctxr.models.hub import cached_weights
    from ctxr.models.loading import DEFAULT_ENCODER

    arch, _, tag = DEFAULT_ENCODER.partition(":")
    found = cached_weights(arch, tag)
    name = f"encoder {DEFAULT_ENCODER}"
    if found:
        yield Check(name, "ok", str(found))
    else:
        yield Check(name, "note", "not on this machine yet", "it is fetched at first use, if the network lets it")
    try:
        encoder = load_encoder("ctxr-tiny", "cpu")
        yield Check("encoder ctxr-tiny", "ok", f"threshold {encoder.threshold:g}, {encoder.dim} dimensions")
    except CtxrError as error:
        yield Check("encoder ctxr-tiny", "problem", error.message, error.hint or "pip install --force-reinstall ctxr")


def _disk(workdir: Path) -> Iterator[Check]:
    place = next(folder for folder in [workdir.resolve(), *workdir.resolve().parents] if folder.exists())
    if not place.is_dir():
        yield Check("workdir", "problem", f"{place} is a file, not a folder", "choose another --workdir")
        return
    free = shutil.disk_usage(place).free / 2**30
    if free < 1:
        yield Check("disk", "problem", f"{free:.2f} GiB free at {place}", "free some space")
    else:
        yield Check("disk", "ok", f"{free:.1f} GiB free at {place}")


def check_artifact(path: Path, talk: Talk) -> Iterator[Check]:
    """Manifest, tables, arrays, pictures, references between tables, and the sources."""
    from ctxr.data.artifacts import open_artifact
    from ctxr.data.hashing import sha256_file

    try:
        artifact = open_artifact(path)
    except CtxrError as error:
        yield Check("manifest", "problem", error.message, error.hint)
        return
    manifest = artifact.manifest
    yield Check("manifest", "ok", f"{manifest.kind}, format {manifest.format}, by ctxr {manifest.ctxr} {manifest.verb}")
    again = f"run ctxr {manifest.verb} again after deleting {path / 'manifest.json'}"
    broken = []
    with talk.progress("files", len(manifest.files)) as task:
        for name, entry in manifest.files.items():
            file = path / name
            if not file.is_file():
                broken.append(f"{name} is missing")
            elif sha256_file(file) != entry.sha256:
                broken.append(f"{name} was changed after the manifest was written")
            task.advance()
    yield _summary("tables", broken, f"{len(manifest.files)} files as they were written", again)
    if manifest.kind == "image_sets" and not broken:
        yield from _check_sets(path, talk, again)


def _check_sets(path: Path, talk: Talk, again: str) -> Iterator[Check]:
    from ctxr.data.hashing import sha256_file
    from ctxr.data.records import Image, ImageSet, Source
    from ctxr.data.tables import read_table

    images = {image.id: image for image in read_table(path / "images.jsonl", Image)}
    sets = read_table(path / "sets.jsonl", ImageSet)
    sources = read_table(path / "sources.jsonl", Source)
    dangling = [f"{image_set.id} names {name}" for image_set in sets for name in image_set.images if name not in images]
    yield _summary("sets", dangling, f"{len(sets)} sets name {len(images)} images", again)
    broken = []
    with talk.progress("pictures", len(images)) as task:
        for image in images.values():
            file = path / image.path
            if not file.resolve().is_relative_to(path.resolve()):
                broken.append(f"{image.id} lies outside the artifact: {image.path}")
            elif not file.is_file():
                broken.append(f"{image.path} is missing")
            elif sha256_file(file) != image.sha256:
                broken.append(f"{image.path} was changed")
            task.advance()
    yield _summary("pictures", broken, f"{len(images)} as they were saved", again)
    for source in sources:
        yield _check_source(path, source)


def _check_source(path: Path, source: "Source") -> Check:
    from ctxr.data.hashing import sha256_file
    from ctxr.data.whereabouts import place_of

    place = place_of(path, source.sha256)
    name = f"source {source.name}"
    if place is None or not place.exists():
        cure = "only needed to decode again: ctxr filter --videos DIR finds it by content"
        detail = "its place is not known on this machine" if place is None else f"no longer at {place}"
        return Check(name, "note", f"{source.file}: {detail}", cure)
    if source.kind == "video" and sha256_file(place) != source.sha256:
        return Check(name, "problem", f"{place} has changed since", "run ctxr build-sets again")
    if source.damage:
        return Check(name, "note", f"damaged: {source.damage}")
    return Check(name, "ok", f"{source.frames} {'frames' if source.kind == 'video' else 'photos'}")


def _summary(name: str, broken: list[str], fine: str, cure: str) -> Check:
    if not broken:
        return Check(name, "ok", fine)
    more = f", and {len(broken) - MOST_NAMED} more" if len(broken) > MOST_NAMED else ""
    return Check(name, "problem", "; ".join(broken[:MOST_NAMED]) + more, cure)
