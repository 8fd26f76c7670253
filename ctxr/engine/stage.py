"""How every verb writes its artifact: check options, resolve inputs, skip if up to date, lock, write, manifest last."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from ctxr.engine.options import Options
from ctxr.engine.progress import Progress, Silent
from ctxr.engine.staging import staged_folder
from ctxr.engine.units import RankShard
from ctxr.errors import CtxrError, UnfinishedError
from ctxr.store.artifacts import (
    EARLIER,
    MANIFEST,
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

    @abstractmethod
    def out(self) -> Path:
        """The folder of the artifact."""

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


def execute(stage: Stage, progress: Progress | None = None) -> StageResult:
    """Run the stage, unless its result is up to date.

    Raises UsageError for invalid options and for a folder that is no artifact of ctxr, UnfinishedError for a folder that another
    process is writing to, and what the stage raises.
    """
    progress = progress or Silent()
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
