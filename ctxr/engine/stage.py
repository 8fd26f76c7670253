"""How every verb writes its artifact: check options, resolve inputs, skip if up to date, lock, write, manifest last."""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from ctxr.engine.history import part_of_run
from ctxr.engine.options import Options
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.report import VerbReport
from ctxr.engine.units import RankShard
from ctxr.errors import CtxrError, DataError, DryRun, UnfinishedError, UsageError, some
from ctxr.store.artifacts import (
    EARLIER,
    MANIFEST,
    MARKER,
    Artifact,
    Content,
    Manifest,
    Parent,
    earlier_manifest,
    finish,
    finished,
    json_config,
    locked,
    open_artifact,
    require_ours,
)
from ctxr.store.atomic import DRY_RUN, disk_errors
from ctxr.store.paths import stays_inside

# folders in an artifact that is replaced: the new files, and the manifest of those to remove
MAKING, LEAVING = ".making", ".leaving"


class NothingWritten(CtxrError):
    """The stage could do nothing, and the earlier result is kept."""


@dataclass(frozen=True)
class Inputs:
    """What decides whether there is work to do; subclasses add fields of their own.

    It reads manifests and hashes files; tables and models are opened by `Stage.write`.

    Attributes:
        parents: what the artifact is made from, by content.
        key: all else that decides it, as in the manifest: decisive options, and such as the fingerprint of an encoder.
    """

    parents: Sequence[Parent]
    key: Mapping[str, Any]


SourceT = TypeVar("SourceT")


@dataclass(frozen=True)
class SourceInputs(Inputs, Generic[SourceT]):
    """Inputs with a `source`, such as the folder of a dataset, from which `Stage.write` starts."""

    source: SourceT


InputsT = TypeVar("InputsT", bound=Inputs)


@dataclass(frozen=True)
class StageResult:
    """The artifact, whether it was finished before, and, where it is incomplete and None, what `Stage.write` returned."""

    artifact: Artifact | None
    up_to_date: bool
    part: VerbReport | None = None


@dataclass(eq=False)
class Stage(ABC, Generic[InputsT]):
    """A verb that writes one artifact.

    The artifact is up to date if its manifest has the same verb, key and parents (by content), its files are unchanged, and
    nothing is `pending`. Otherwise `write` is called, with the folder locked.

    Attributes:
        KIND: of the artifact.
        IN_PLACE: `write` works in the folder of the artifact, where an interrupted run continues, and calls `take_manifest` before
            it changes the earlier result. Otherwise it gets an empty folder, which replaces the earlier result at the end.
        shard: the units of a rank; a rank writes no manifest. None for a whole run.
        replacing: what `announce` says of an earlier result with other settings.
    """

    KIND: str = field(init=False)
    IN_PLACE: ClassVar[bool] = False
    shard: RankShard | None = field(default=None, init=False)
    replacing: str = field(default="", init=False)
    options: Options

    def out(self) -> Path:
        """The folder of the artifact; by default the one that the options name."""
        return self.options.folder()

    @abstractmethod
    def inputs(self, progress: Progress) -> InputsT:
        """What the artifact is made from. Raises for inputs that are missing or unfinished."""

    def refuse(self, inputs: InputsT, progress: Progress) -> None:
        """Raises for unusable inputs, before a folder is made; it may read tables."""
        return

    @abstractmethod
    def write(self, inputs: InputsT, out: Path, progress: Progress) -> Content | VerbReport | None:
        """Do the work in `out`; a report, or None, if it is incomplete: no manifest is written, and the same command resumes.

        The earlier result is kept where it raises before it takes the manifest, or NothingWritten after that.
        """

    def announce(self, progress: Progress, **plan: object) -> None:
        """Say that the earlier result is replaced; `write` calls this before it works and writes, once nothing refuses any more. Here a
        dry run ends, with the `plan`: how much is to be done, and what it costs."""
        if DRY_RUN.get():
            raise DryRun(plan=plan)
        if self.replacing:
            progress.note(self.replacing)
        self.replacing = ""

    def pending(self, artifact: Artifact, inputs: InputsT) -> bool:
        """Whether something is left to do in the finished artifact of the same inputs, such as failures to try again."""
        return False

    def other(self, earlier: Manifest, inputs: InputsT) -> list[str]:
        """Settings that an earlier result, finished or being replaced, had at another value."""
        key, before = json_config(inputs.key), earlier.config
        return sorted(name for name in key.keys() | before.keys() if key.get(name) != before.get(name))

    def changed_files(self, artifact: Artifact) -> list[str]:
        """Files that were modified since the artifact was finished; by default those that the manifest lists."""
        return artifact.changed_files()

    def current(self, out: Path, inputs: InputsT) -> Artifact | None:
        """The artifact in `out` if it is up to date."""
        try:
            artifact = finished(out, self.KIND, self.options.COMMAND, inputs.key, inputs.parents)
            changed = artifact is None or self.changed_files(artifact) or self.pending(artifact, inputs)
            return None if changed else artifact
        except (UnfinishedError, FileNotFoundError):  # another rank may remove it meanwhile
            return None


def execute(stage: Stage[Any], progress: Progress = SILENT) -> StageResult:
    """Run the stage, unless its result is up to date.

    Raises UsageError for invalid options and a folder of other files, UnfinishedError for a folder that another process writes to.
    """
    stage.options.check()
    with part_of_run(stage.options) as run:
        inputs, out, looks = stage.inputs(progress), stage.out(), DRY_RUN.get()
        if artifact := stage.current(out, inputs):
            run.artifacts[out] = True
            progress.detail(f"{out} is up to date")
            return StageResult(artifact, up_to_date=True)
        stage.refuse(inputs, progress)
        why, parents = reason(stage, out, inputs), ", ".join(f"{one.name} {one.sha256[:12]}" for one in inputs.parents)
        progress.detail(f"{why}; it is made of {parents or 'nothing'} with {json_config(inputs.key)}")
        require_ours(out)
        with nullcontext() if looks and not (out / MARKER).is_file() else locked(out, shared=stage.shard is not None):
            if artifact := stage.current(out, inputs):  # another process was faster
                run.artifacts[out] = True
                return StageResult(artifact, up_to_date=True)
            replaces, earlier = stage.shard is None and (out / MANIFEST).is_file(), earlier_manifest(out)
            if replaces and earlier and (names := stage.other(earlier, inputs)):
                before = {name: value for name, value in earlier.config.items() if isinstance(value, int | float)}
                settings = some(f"{name} {before[name]}" if name in before else name for name in names)
                stage.replacing = f"replacing {out}, made with other settings ({settings}); another folder keeps both"
            with nullcontext(out) if stage.IN_PLACE or looks else staged_folder(out) as folder:
                try:
                    content = stage.write(inputs, folder, progress)
                    stage.announce(progress)
                except DryRun as ended:
                    raise DryRun(f"would write {why}", ended.plan) from None
                except NothingWritten:
                    if replaces and not (out / MANIFEST).is_file():
                        (out / EARLIER).replace(out / MANIFEST)
                    raise
                if not isinstance(content, Content) and stage.IN_PLACE:
                    return StageResult(None, False, content)
                if not isinstance(content, Content) or (folder / MANIFEST).is_file():
                    raise TypeError(f"{stage.KIND} is written in part, or its earlier manifest was not taken")
                artifact = finish(
                    folder,
                    kind=stage.KIND,
                    verb=stage.options.COMMAND,
                    config=inputs.key,
                    parents=inputs.parents if content.parents is None else content.parents,
                    content=content,
                )
            run.artifacts[out] = False
            return StageResult(artifact if stage.IN_PLACE else open_artifact(out), up_to_date=False)


def reason(stage: Stage[InputsT], out: Path, inputs: InputsT) -> str:
    """The folder of an artifact that is not up to date, and why not."""
    earlier = earlier_manifest(out)
    if earlier is None:
        return f"{out}, where nothing is finished yet"
    known = {parent.sha256 for parent in earlier.parents}
    changed = stage.other(earlier, inputs) or [parent.name for parent in inputs.parents if parent.sha256 not in known]
    what = f"{some(changed)} changed" if changed else "files of it changed, or some are missing"
    return f"{out}, replacing the earlier result, because {what}"


@contextmanager
def staged_folder(out: Path) -> Iterator[Path]:
    """An empty folder to write an artifact into, manifest last; when the block ends well, its files replace the artifact in `out`.

    A user's own files stay, and so does the artifact if the block fails. The caller holds the lock.
    """
    folder, leaving = out / MAKING, out / LEAVING
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
        written = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
        for name in [*sorted(written - {MANIFEST}), MANIFEST]:
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
    """Remove files that the manifest in `listing` names from `out`, and empty folders."""
    try:
        names = list(open_artifact(listing).manifest.files)
    except CtxrError:
        return  # damaged: it is not known what to remove
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
