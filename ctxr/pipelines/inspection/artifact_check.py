"""Whether an artifact or a published release is whole, up to its sources."""

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from ctxr.datasets.changes import picture_rows
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.open import dataset_identity, open_dataset
from ctxr.datasets.readers.artifact import KINDS
from ctxr.datasets.readers.imagecode import DESCRIPTIONS
from ctxr.engine.progress import Progress
from ctxr.engine.report import leak_sentence
from ctxr.errors import CtxrError, UsageError, and_more
from ctxr.media.images import read_image, troubles
from ctxr.media.sources import digest_of
from ctxr.pipelines.inspection.config import Check, Doctor
from ctxr.pipelines.inspection.order_check import check_order, check_scores
from ctxr.problems.question import find_learner
from ctxr.problems.registry import problem_of
from ctxr.problems.runs import Scoring, ScoringOptions, find_runs, run_sources
from ctxr.store.artifacts import MANIFEST, Artifact, open_artifact
from ctxr.store.hashing import sha256_file
from ctxr.store.kinds import IMAGE_SETS
from ctxr.store.paths import last_path
from ctxr.store.records import Image, ImageSet, Source
from ctxr.store.tables import pretty_json, read_table
from ctxr.store.units import album_files, read_unit, unit_folder

MOST_NAMED = 5
"""Maximum number of broken files of one kind that are listed; the rest is counted."""


def check_folder(config: Doctor, folder: Path, progress: Progress) -> Iterator[Check]:
    """The checks of one artifact or release, or of every artifact of a project folder."""
    within = [] if (folder / MANIFEST).exists() else sorted(path.parent for path in folder.glob(f"*/{MANIFEST}"))
    for path in within or [folder]:
        if within:
            yield Check(str(path), "note", "")
        # a published release, or an artifact with sets; what is wrong with its manifest is told below
        ordered = False
        with suppress(CtxrError, OSError):
            names = [file.name for file in path.iterdir()] if path.is_dir() else [path.name]
            ordered = any(map(DESCRIPTIONS.fullmatch, names))
            if not ordered and (path / MANIFEST).is_file():
                ordered = open_artifact(path).manifest.kind in KINDS
        checks = [] if ordered and not (path / MANIFEST).is_file() else list(check_artifact(path, progress))
        yield from checks
        if not ordered or any(check.state == "problem" for check in checks):
            continue
        try:
            dataset = open_dataset(path, config.workdir, progress)
            if dataset.root is not None and not (dataset.root / MANIFEST).is_file():
                yield from check_release(dataset, progress)
            yield from check_order(dataset)
        except UsageError:
            raise
        except (CtxrError, OSError) as error:
            yield _failed("order", error)
            continue
        if config.scores:
            queries = [query.id for query, _, _ in dataset.targets()]
            options, origin = ScoringOptions(config.workdir, config.device), dataset_identity(path)
            sources = run_sources(config.scores, config.workdir, origin, progress)
            scoring = Scoring(dataset, origin, queries, options, progress, lambda: find_learner(problem_of({})))
            yield from check_scores(dataset, find_runs(sources, scoring), config.reference, config.seed)


def check_artifact(path: Path, progress: Progress, is_parent: bool = False) -> Iterator[Check]:
    """Check manifest, tables, arrays, images, references, parents, and unless `is_parent` the sources."""
    prefix = f"parent {path.name}: " if is_parent else ""
    try:
        artifact = open_artifact(path)
    except (CtxrError, OSError) as error:
        yield _failed(f"{prefix}manifest", error)
        return
    manifest = artifact.manifest
    if pretty_json(manifest.sealed()) != (path / MANIFEST).read_bytes():
        yield Check(f"{prefix}manifest", "problem", f"{MANIFEST} was changed since it was written", artifact.cure)
        return
    by = f"by ctxr {manifest.ctxr} {manifest.verb}"
    yield Check(f"{prefix}manifest", "ok", f"{manifest.kind}, format {manifest.format}, {by}")
    if manifest.verb == "filter":
        made_from = [parent.sha256 for parent in manifest.parents if parent.kind == manifest.kind]
        yield from _check_parent(path, made_from, progress)
    try:
        hashes = {name: entry.sha256 for name, entry in manifest.files.items()}
        broken = _troubles("files", path, hashes, "was changed after the manifest was written", progress)
        fine = f"{len(manifest.files)} unchanged files"
        yield _summary(f"{prefix}tables", list(broken.values()), fine, artifact.cure)
        if manifest.kind == IMAGE_SETS and not broken:
            yield from _check_sets(artifact, progress, prefix)
    except (CtxrError, OSError) as error:
        yield _failed(f"{prefix}tables", error, artifact.cure)


def _check_parent(path: Path, fingerprints: list[str], progress: Progress) -> Iterator[Check]:
    """The sets that a filter read, if they stand beside what it wrote: pictures of both are the same files."""
    try:
        for sibling in sorted(path.resolve().parent.iterdir()):
            if (sibling / MANIFEST).is_file() and sha256_file(sibling / MANIFEST) in fingerprints:
                yield from check_artifact(sibling, progress, is_parent=True)
                return
    except OSError as error:
        yield _failed("parent", error)
        return
    if (path.resolve().parent / "sets" / MANIFEST).is_file():
        detail = f"{path.parent / 'sets'} was rebuilt: {path} is out of date"
        yield Check("parent", "problem", detail, "run the same ctxr filter again")
        return
    cure = "only needed to filter again"
    yield Check("parent", "note", f"the sets it was made from do not stand beside {path}: skipped", cure)


def _check_sets(artifact: Artifact, progress: Progress, prefix: str) -> Iterator[Check]:
    path = artifact.path
    images = {image.id: image for image in read_table(path / "images.jsonl", Image)}
    sets = read_table(path / "sets.jsonl", ImageSet)
    sources = read_table(path / "sources.jsonl", Source)
    named = [f"{one.id} names {name}" for one in sets for name in one.images if name not in images]
    yield _summary(f"{prefix}sets", named, f"{len(sets)} sets name {len(images)} images", artifact.cure)
    if leak := leak_sentence(artifact.manifest.counts):
        yield Check(f"{prefix}splits", "problem", leak, "give sources that share footage one split and build again")
    pictures = {row.path: row.sha256 for row in picture_rows(path)}
    broken = _troubles("pictures", path, pictures, "was changed", progress)
    fine = f"{len(pictures)} as they were saved"
    yield _summary(f"{prefix}pictures", list(broken.values()), fine, _cure(artifact, broken))
    if not prefix:
        for source in sources:
            yield _check_source(path, source)


def _troubles(what: str, path: Path, hashes: Mapping[str, str], changed: str, progress: Progress) -> dict[str, str]:
    """What is wrong with files of the artifact, in words, by name."""
    broken = {}
    for name, sha256 in progress.each(f"checking {what}", hashes.items()):
        try:
            if not (path / name).resolve().is_relative_to(path.resolve()):
                broken[name] = f"{name} lies outside the artifact"
            elif sha256_file(path / name) != sha256:
                broken[name] = f"{name} {changed}"
        except FileNotFoundError:
            broken[name] = f"{name} is missing"
        except (OSError, RuntimeError, ValueError) as error:
            broken[name] = f"{name} cannot be read: {getattr(error, 'strerror', None) or error}"
    return broken


def _check_source(path: Path, source: Source) -> Check:
    name = f"source {source.name}"
    found_at = last_path(path, source.sha256)
    try:
        if found_at is None or not found_at.exists():
            cure = "only needed to decode again: ctxr filter --videos DIR finds it by content"
            detail = "its place is not known on this machine" if found_at is None else f"no longer at {found_at}"
            return Check(name, "note", f"{source.file}: {detail}", cure)
        if source.kind == "video" and sha256_file(found_at) != source.sha256:
            cure = "restore the file, or run ctxr build-sets again"
            return Check(name, "problem", f"{found_at} has changed since", cure)
        # images that a recipe gave stand alone: their album was never walked
        walked = source.kind == "photos" and unit_folder(path, source.name).is_dir()
        if walked and (wrong := album_files(read_unit(path, source.name), found_at, digest_of).problems):
            return _summary(name, wrong, "", "restore the photos, or run ctxr build-sets again")
    except (CtxrError, OSError) as error:
        return _failed(name, error)
    if source.damage:
        cure = f"if a whole copy can be had, put it at {found_at} and run ctxr build-sets again"
        return Check(name, "note", f"damaged: {source.damage}", cure)
    return Check(name, "ok", f"{source.frames} {'frames' if source.kind == 'video' else 'photos'}")


def _failed(name: str, error: CtxrError | OSError, cure: str = "") -> Check:
    """A check that an error ended; `cure` where the error has no hint."""
    if isinstance(error, CtxrError):
        return Check(name, "problem", error.message, error.hint or cure)
    file = error.filename or "a file"
    return Check(name, "problem", f"{file} cannot be read: {error.strerror or error}", f"chmod -R u+rX {file}")


def _cure(artifact: Artifact, names: Iterable[str]) -> str:
    """How to rebuild these pictures: their command looks only into younger ones, so all are made younger first."""
    if closed := [file for name in names if (file := artifact.path / name).exists() and not os.access(file, os.R_OK)]:
        return shlex.join(["chmod", "-R", "u+rX", str(closed[0].parent)])
    younger = ["find", str(artifact.path), "-type", "f", "!", "-name", MANIFEST, "-exec", "touch", "{}", "+"]
    return f"{shlex.join(younger)}   then run ctxr {artifact.manifest.verb} again as before"


def _summary(name: str, broken: list[str], fine: str, cure: str) -> Check:
    """`fine` where nothing is broken, else the first few of what is."""
    if not broken:
        return Check(name, "ok", fine)
    return Check(name, "problem", "; ".join(broken[:MOST_NAMED]) + and_more(len(broken), MOST_NAMED), cure)


CURE = "put the picture back as it was published; the commands treat such a set as one without pictures, or refuse it"
DECODE = "put them back as they were published; the commands stop at a picture that cannot be decoded"


def check_release(dataset: Dataset, progress: Progress) -> Iterator[Check]:
    """Sets that lack pictures, pictures that cannot be decoded, and what the reader left out or took on trust."""
    lacking = [row.id for row in dataset.sets if not all(dataset.images[name].path for name in row.images)]
    files = {image.path: file for image in dataset.images.values() if (file := dataset.picture(image)) is not None}
    if not any(dataset.images[name].path for row in dataset.sets for name in row.images):
        yield Check("pictures", "note", "none here: nothing can be trained on or scored by a model")
        files = {}
    elif lacking:
        why = next((note for note in dataset.notes if lacking[0] in note), f"the first is {lacking[0]}")
        detail = f"{len(lacking)} of {len(dataset.sets)} sets lack pictures that can be read: {why}"
        yield Check("pictures", "problem", detail, CURE)
    broken, found = [], troubles(read_image, list(files.values()))
    for name, trouble in zip(progress.each("decoding pictures", files), found, strict=True):
        # a whole path would not fit beside the others, and its end is what tells pictures apart
        if trouble is not None:
            broken.append(trouble.message.replace(str(files[name]), name))
    if broken or (files and not lacking):
        yield _summary("pictures", broken, f"all of {len(dataset.sets)} sets are here, every picture decoded", DECODE)
    for note in dataset.notes:
        yield Check("release", "note", note)
