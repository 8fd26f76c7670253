"""How every verb writes its artifact: check options, resolve inputs, skip if up to date, lock, write, manifest last."""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, cast

from ctxr.engine.options import Options
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.units import RankShard
from ctxr.errors import CtxrError, DataError, UnfinishedError, UsageError
from ctxr.store.artifacts import (
    EARLIER,
    MANIFEST,
    MARKER,
    Artifact,
    Content,
    Parent,
    earlier_manifest,
    finish,
    finished,
    locked,
    open_artifact,
    plain,
    require_ours,
    take_manifest,
)
from ctxr.store.atomic import disk_errors, link_or_copy
from ctxr.store.hashing import sha256_file
from ctxr.store.paths import stays_inside


class NothingWritten(CtxrError):
    """The stage could do nothing: the earlier result is kept."""


@dataclass(frozen=True)
class Inputs:
    """What a stage reads, resolved once and cheaply, before it is decided whether there is work to do.

    Attributes:
        parents: what the artifact is made from, by content.
        data: handed on to `write`.
        key: what decides beside the options, such as the fingerprint of an encoder.
    """

    parents: Sequence[Parent]
    data: Any = None
    key: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StageResult:
    """The artifact, None while it is incomplete, and whether it was finished before."""

    artifact: Artifact | None
    up_to_date: bool


class Stage(ABC):
    """A verb that writes one artifact. A verb that only reads is a plain function of its options.

    Attributes:
        KIND: of the artifact. STAGED: write into an empty folder that replaces the old artifact once it is whole, instead of
            completing the folder in place. shard: the units of a rank, which writes no manifest; None for a whole run.
    """

    KIND: str
    STAGED: ClassVar[bool] = False

    def __init__(self, options: Options) -> None:
        self.options, self.shard = options, RankShard.of(options)

    def out(self) -> Path:
        """The folder of the artifact; by default the one that the options name."""
        return Path(cast(Any, self.options).folder())

    @abstractmethod
    def inputs(self, progress: Progress) -> Inputs:
        """What is read. Raises for inputs that are missing or unfinished."""

    def other_options(self, inputs: Inputs, out: Path) -> list[str]:
        """Decisive options that the finished result in `out` had at another value."""
        if (earlier := earlier_manifest(out)) is None:
            return []
        key, before = self.key(inputs), earlier.config
        options = self.options.describe().keys() & (key.keys() | before.keys())
        return sorted(name for name in options if key.get(name) != before.get(name))

    def note_replaced(self, inputs: Inputs, out: Path, progress: Progress) -> None:
        """Say which options of the finished result in `out` were others; it is about to be replaced."""
        if names := ", ".join(self.other_options(inputs, out)):
            progress.note(
                f"replacing {out}, which was made with other options ({names}); choose another folder to keep both"
            )

    def prepare(self, inputs: Inputs, out: Path, progress: Progress) -> Inputs:
        """Do what can still fail, or does not touch the earlier result: `out` is locked, and its manifest not yet removed. Returns
        the inputs of `write`."""
        return inputs

    @abstractmethod
    def write(self, inputs: Inputs, out: Path, progress: Progress) -> Content | None:
        """Do the work in `out`, which is locked. Returns None if it is incomplete: no manifest is written, and the same command
        resumes. May raise NothingWritten to keep the earlier result. A rank takes the manifest itself, once it has work."""

    def used(self, inputs: Inputs) -> Sequence[Parent]:
        """The parents that contributed to the result: all of them by default."""
        return inputs.parents

    def current(self, out: Path, inputs: Inputs) -> Artifact | None:
        """The artifact in `out` if it is the finished result of the same options and inputs, and unmodified."""
        try:
            artifact = finished(out, self.KIND, self.options.COMMAND, self.key(inputs), inputs.parents)
            return None if artifact is None or self.changed_files(artifact) else artifact
        except (UnfinishedError, FileNotFoundError):  # another rank may remove the manifest meanwhile
            return None

    def changed_files(self, artifact: Artifact) -> list[str]:
        """Files of the finished artifact that were modified since; by default those that the manifest lists."""
        return artifact.changed_files()

    def key(self, inputs: Inputs) -> dict[str, Any]:
        """What decides the result, as the manifest records it."""
        return plain(self.options.key() | dict(inputs.key))

    def require_free(self, out: Path) -> None:
        """Make the folder ours. Raises UsageError where it holds something else."""
        require_ours(out)


def execute(stage: Stage, progress: Progress = SILENT) -> StageResult:
    """Run the stage, unless its result is up to date.

    Raises UsageError for invalid options and for a folder that is no artifact of ctxr, UnfinishedError for a folder that another
    process is writing to, and what the stage raises.
    """
    stage.options.check()
    inputs, out = stage.inputs(progress), stage.out()
    if artifact := stage.current(out, inputs):
        return StageResult(artifact, up_to_date=True)
    stage.require_free(out)
    with locked(out, shared=stage.shard is not None):
        if artifact := stage.current(out, inputs):  # another process was faster
            return StageResult(artifact, up_to_date=True)
        if stage.shard is None and (out / MANIFEST).is_file():
            stage.note_replaced(inputs, out, progress)
        inputs = stage.prepare(inputs, out, progress)
        before = None if stage.shard or stage.STAGED else take_manifest(out)
        with staged_folder(out) if stage.STAGED else nullcontext(out) as folder:
            try:
                content = stage.write(inputs, folder, progress)
            except NothingWritten:
                if before is not None:
                    (out / EARLIER).replace(out / MANIFEST)
                raise
            if content is None and stage.STAGED:
                raise TypeError(f"{stage.KIND} is staged, so it cannot be written in part")
            if content is None:
                return StageResult(None, up_to_date=False)
            artifact = finish(
                folder,
                kind=stage.KIND,
                verb=stage.options.COMMAND,
                config=stage.key(inputs),
                parents=stage.used(inputs),
                content=content,
            )
        return StageResult(open_artifact(out) if stage.STAGED else artifact, up_to_date=False)


CARD = "README.md"
"""Name of the dataset card, the one file of an export that people edit."""

_MAKING = ".making"
_LEAVING = ".leaving"


def refuse_others(out: Path, kind: str, to: str = "") -> None:
    """Make the folder `out` ours, or leave it alone: raises UsageError when it holds something that is no export, or one in
    another format than `to`.
    """
    require_ours(out)
    with disk_errors(out):
        names = {path.name for path in out.iterdir()}
    if MANIFEST in names:
        manifest = open_artifact(out).manifest
        if manifest.kind != kind:
            raise UsageError(f"{out} holds {manifest.kind}, not an {kind}", hint="choose another folder with --out")
        if to and manifest.config.get("to") != to:
            raise UsageError(
                f"{out} holds an export to {manifest.config.get('to')}, not to {to}", hint="choose another --out"
            )
    elif names - {MARKER} and not names & {_MAKING, _LEAVING}:
        raise UsageError(f"{out} holds an unfinished artifact of another kind", hint="choose another folder with --out")


def keep_card(out: Path, progress: Progress) -> None:
    """Before an export is replaced: a card that was edited by hand is kept beside the new one."""
    card = out / CARD
    if not (out / MANIFEST).is_file() or not card.is_file():
        return
    entry = open_artifact(out).manifest.files.get(CARD)
    if entry is not None and sha256_file(card) != entry.sha256:
        kept = out / f"{card.stem}.edited{card.suffix}"
        link_or_copy(card, kept)
        progress.warn(f"{card} was edited: your version is kept as {kept.name}")


@contextmanager
def staged_folder(out: Path) -> Iterator[Path]:
    """An empty folder to write an artifact into, manifest last; when the block ends well, its files are moved to `out`.

    Files of the artifact that was there before go, a user's own never; if the block fails, it stays as it was. The caller holds the lock.
    """
    folder, leaving = out / _MAKING, out / _LEAVING
    with disk_errors(out):
        # a run that was killed while it moved its files left the list of them
        for half in (leaving, folder):
            if not (out / MANIFEST).is_file() and (half / MANIFEST).is_file():
                _remove_listed(out, half)
            shutil.rmtree(half, ignore_errors=True)
        folder.mkdir()
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    with disk_errors(out):
        if (out / MANIFEST).is_file():
            leaving.mkdir()
            (out / MANIFEST).replace(leaving / MANIFEST)
            _remove_listed(out, leaving)
        for name in [*open_artifact(folder).manifest.files, MANIFEST]:
            final = out / name
            _keep_inside(out, final)
            final.parent.mkdir(parents=True, exist_ok=True)
            # the list stays in `.making` until all is moved
            if name == MANIFEST:
                shutil.copyfile(folder / name, folder / f".{name}")
                (folder / f".{name}").replace(final)
            else:
                (folder / name).replace(final)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(leaving, ignore_errors=True)


def _remove_listed(out: Path, listing: Path) -> None:
    """Remove the files that the manifest in `listing` names from `out`, and folders that are empty then."""
    try:
        names = list(open_artifact(listing).manifest.files)
    except CtxrError:
        return  # damaged: nothing is known, nothing is removed
    folders: set[Path] = set()
    for name in names:
        if not stays_inside(name):
            raise DataError(f"{out} lists a file {name!r} that is not inside it", hint="choose another --out")
        _keep_inside(out, out / name)
        (out / name).unlink(missing_ok=True)
        folders.update(parent for parent in (out / name).parents if out in parent.parents)
    for folder in sorted(folders, key=lambda folder: len(folder.parts), reverse=True):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _keep_inside(out: Path, file: Path) -> None:
    """Raises UsageError where a link would lead a file out of the folder."""
    if not file.parent.resolve().is_relative_to(out.resolve()):
        raise UsageError(f"{file.parent} is a link to another folder", hint="choose an empty or new folder with --out")
