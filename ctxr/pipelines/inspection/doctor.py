"""`ctxr doctor`: check this machine, or the integrity of an artifact and its image order."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from ctxr.engine.progress import SILENT, Progress
from ctxr.errors import CtxrError, first_line
from ctxr.models.hub import DEFAULT_ENCODER, LITE
from ctxr.models.wheels import cache_folder
from ctxr.pipelines.inspection.config import Check, Doctor, DoctorReport
from ctxr.store.artifacts import package_versions

REINSTALL = "pip install --force-reinstall -c constraints.txt torch torchvision"


def run(config: Doctor, progress: Progress = SILENT) -> DoctorReport:
    """All checks, in order. Raises UsageError for unknown encoders and runs."""
    config.check()
    if config.artifact is not None:
        # imported here, so that the machine can be checked where torch is broken
        from ctxr.pipelines.inspection.artifact_check import check_folder

        checks = tuple(check_folder(config, config.artifact, progress))
    else:
        checks = tuple(check_machine(config.workdir))
    return DoctorReport(checks, sum(check.state == "problem" for check in checks))


def check_machine(workdir: Path) -> Iterator[Check]:
    """Python, packages, devices, outside programs, encoders, disk."""
    yield Check("python", "ok", ".".join(map(str, sys.version_info[:3])))
    for name, version in package_versions().items():
        missing = Check(name, "problem", "not installed", f"pip install {name}")
        yield Check(name, "ok", version) if version else missing
    try:
        from ctxr.models.precision import devices

        yield Check("devices", "ok", ", ".join(devices()))
    except Exception as error:
        yield Check("torch", "problem", f"torch and torchvision are incompatible: {first_line(error)}", REINSTALL)
    for name, package, option, state, use in (
        ("tesseract", "tesseract-ocr", "--version", "problem", "--max-text is unavailable"),
        ("ffmpeg", "ffmpeg", "-version", "note", "only --detector ffmpeg needs it"),
    ):
        program = shutil.which(name)
        if program is None:
            yield Check(name, state, f"not found: {use}", f"apt-get install {package}")
        else:
            yield _answer(name, [program, option], state, f"apt-get install --reinstall {package}")
    yield from _encoders()
    elsewhere = "choose another --workdir"
    try:
        existing = next(folder for folder in [workdir.resolve(), *workdir.resolve().parents] if folder.exists())
        free = shutil.disk_usage(existing).free / 2**30
    except OSError as error:
        yield Check("workdir", "problem", f"{workdir} is inaccessible: {error.strerror}", elsewhere)
        return
    if not existing.is_dir():
        yield Check("workdir", "problem", f"{existing} is a file, not a folder", elsewhere)
    elif free < 1:
        yield Check("disk", "problem", f"{free:.2f} GiB free at {existing}", "free some space")
    else:
        yield Check("disk", "ok", f"{free:.1f} GiB free at {existing}")


def _answer(name: str, command: list[str], otherwise: str, cure: str) -> Check:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check(name, otherwise, f"does not respond: {error}", cure)
    lines = (done.stdout.strip() or done.stderr.strip()).splitlines() or [""]
    if done.returncode or not lines[0]:
        return Check(name, otherwise, f"does not work: exit code {done.returncode}, {lines[0] or 'no output'}", cure)
    return Check(name, "ok", lines[0])


def _encoders() -> Iterator[Check]:
    try:
        from ctxr.models.encoders import load_encoder
        from ctxr.models.hub import cached_weights

        arch, _, tag = DEFAULT_ENCODER.partition(":")
        weights, lite = cached_weights(arch, tag), cache_folder() / LITE
    except Exception as error:
        yield Check("encoders", "problem", f"cannot be loaded: {first_line(error)}", REINSTALL)
        return
    for found, place in ((DEFAULT_ENCODER, weights), (LITE, lite if lite.is_dir() else None)):
        cure = "" if place else "it is downloaded at first use, if the network allows"
        yield Check(f"encoder {found}", "ok" if place else "note", str(place or "not downloaded yet"), cure)
    name = "encoder ctxr-tiny"
    try:
        encoder = load_encoder("ctxr-tiny", "cpu")
        yield Check(name, "ok", f"threshold {encoder.threshold:g}, {encoder.dim} dimensions")
    except CtxrError as error:
        yield Check(name, "problem", error.message, error.hint or "install ctxr again")
    except Exception as error:
        yield Check(name, "problem", f"cannot be loaded: {first_line(error)}", REINSTALL)
