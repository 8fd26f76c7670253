"""The life of a verb: nothing is done twice, an edited file and another key are, and a stage that fails leaves what was there."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pytest
from msgspec import structs

from ctxr.engine.options import Options, Range
from ctxr.engine.progress import Progress, Silent
from ctxr.engine.stage import Inputs, NothingWritten, Stage, execute
from ctxr.errors import UnfinishedError, UsageError
from ctxr.store.artifacts import MANIFEST, Artifact, Content, Parent, locked, open_artifact, take_manifest

PARENT = Parent("source", "video", "0" * 64)


@dataclass(frozen=True)
class Copy(Options):
    """Options of a verb that does not exist."""

    COMMAND: ClassVar[str] = "copy"

    out: Path = Path("work")
    """Where to."""
    times: Annotated[int, Range(1, 9, "a number from 1 to 9")] = 1
    """How often."""


class Copies(Stage[Inputs]):
    """Writes a line for each time."""

    KIND = "copies"
    IN_PLACE = True
    options: Copy

    def __init__(self, options: Copy, encoder: str = "a", fails: Exception | None = None, part: bool = False) -> None:
        super().__init__(options)
        self.encoder, self.fails, self.part, self.runs = encoder, fails, part, 0

    def out(self) -> Path:
        return self.options.out

    def inputs(self, progress: Progress) -> Inputs:
        return Inputs([PARENT], self.options.key() | {"encoder": self.encoder})

    def write(self, inputs: Inputs, out: Path, progress: Progress) -> Content | None:
        self.runs += 1
        if not isinstance(self.fails, UsageError):
            take_manifest(out)
        if self.fails is not None:
            raise self.fails
        (out / "lines.txt").write_text("line\n" * self.options.times)
        return None if self.part else Content(["lines.txt"], {"lines": self.options.times}, {})


class Replaced(Copies):
    """The same, written beside the old artifact and then put in its place."""

    IN_PLACE = False


@pytest.mark.parametrize("kind", [Copies, Replaced])
def test_what_is_finished_is_done_once_and_what_changed_is_done_again(kind: type[Copies], tmp_path: Path) -> None:
    options = Copy(tmp_path / "out", 2)
    first = execute(kind(options))
    assert (first.up_to_date, (tmp_path / "out" / "lines.txt").read_text()) == (False, "line\nline\n")
    again = kind(options)
    second = execute(again)
    assert (second.up_to_date, again.runs, second.artifact) == (True, 0, first.artifact)
    (tmp_path / "out" / "lines.txt").write_text("edited")
    assert not execute(kind(options)).up_to_date
    assert (tmp_path / "out" / "lines.txt").read_text() == "line\nline\n"
    assert not execute(kind(options, encoder="b")).up_to_date
    assert not execute(kind(Copy(tmp_path / "out", 3), encoder="b")).up_to_date
    manifest = open_artifact(tmp_path / "out").manifest
    assert (manifest.verb, manifest.config) == ("copy", {"times": 3, "encoder": "b"})


def test_a_result_with_other_options_is_named_before_it_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []
    monkeypatch.setattr(Silent, "note", lambda _, text: notes.append(text))
    for times, encoder in ((2, "a"), (2, "a"), (3, "a"), (3, "b")):
        execute(Copies(Copy(tmp_path / "out", times), encoder))
    with pytest.raises(UsageError, match="nothing fits"):
        execute(Copies(Copy(tmp_path / "out", 4), fails=UsageError("nothing fits")))
    of_times, of_encoder = notes  # and none of the run that refused
    assert str(tmp_path / "out") in of_times
    assert "(times 2)" in of_times
    assert "(encoder)" in of_encoder


def test_a_stage_that_can_do_nothing_leaves_the_earlier_result_in_force(tmp_path: Path) -> None:
    execute(Copies(Copy(tmp_path / "out")))
    before = (tmp_path / "out" / MANIFEST).read_bytes()
    for error in (NothingWritten("no source could be read"), UsageError("before the manifest is taken")):
        with pytest.raises(type(error), match=error.message):
            execute(Copies(Copy(tmp_path / "out", 2), fails=error))
        assert (tmp_path / "out" / MANIFEST).read_bytes() == before


def test_a_stage_that_breaks_off_leaves_no_manifest_and_a_staged_one_leaves_the_old_artifact(tmp_path: Path) -> None:
    for kind, left in ((Copies, False), (Replaced, True)):
        out = tmp_path / kind.__name__
        execute(kind(Copy(out)))
        with pytest.raises(KeyboardInterrupt):
            execute(kind(Copy(out, 2), fails=KeyboardInterrupt()))  # type: ignore[arg-type]
        assert (out / MANIFEST).is_file() is left


def test_the_manifest_goes_before_the_first_file_of_a_staged_artifact_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute(Replaced(Copy(tmp_path)))
    unlink, left = Path.unlink, []

    def remove(path: Path, missing_ok: bool = False) -> None:
        left.append((path.name, (tmp_path / MANIFEST).exists()))
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", remove)
    execute(Replaced(Copy(tmp_path, 2)))
    assert ("lines.txt", False) in left
    assert ("lines.txt", True) not in left


def test_work_done_in_part_has_no_manifest_and_goes_on(tmp_path: Path) -> None:
    assert execute(Copies(Copy(tmp_path / "out"), part=True)).artifact is None
    assert not (tmp_path / "out" / MANIFEST).exists()
    assert not execute(Copies(Copy(tmp_path / "out"))).up_to_date


def test_a_finished_result_with_something_left_to_do_is_worked_on(tmp_path: Path) -> None:
    class Retried(Copies):
        def pending(self, artifact: Artifact, inputs: Inputs) -> bool:
            return bool(artifact.manifest.counts["lines"] == self.options.times == inputs.key["times"] == 2)

    assert [execute(Retried(Copy(tmp_path / "out", 2))).up_to_date for _ in range(2)] == [False, False]
    assert [execute(Retried(Copy(tmp_path / "out", 3))).up_to_date for _ in range(2)] == [False, True]


def test_a_parent_that_was_renamed_is_the_same_and_the_result_may_name_those_that_contributed(tmp_path: Path) -> None:
    class Named(Copies):
        parents: tuple[Parent, ...] = (PARENT,)

        def inputs(self, progress: Progress) -> Inputs:
            return Inputs(self.parents, self.options.key())

        def write(self, inputs: Inputs, out: Path, progress: Progress) -> Content | None:
            content = super().write(inputs, out, progress)
            return content and content._replace(parents=inputs.parents[:1])

    class Renamed(Named):
        parents = (structs.replace(PARENT, name="other"),)

    class Several(Named):
        parents = (PARENT, Parent("unused", "video", "1" * 64))

    execute(Named(Copy(tmp_path)))
    assert execute(Renamed(Copy(tmp_path))).up_to_date
    execute(Several(Copy(tmp_path)))
    assert open_artifact(tmp_path).manifest.parents == [PARENT]


def test_options_are_checked_first_and_a_folder_of_others_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--times 10"):
        execute(Copies(Copy(tmp_path / "out", 10)))
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("dear")
    with pytest.raises(UsageError, match="of an artifact"):
        execute(Copies(Copy(tmp_path / "letters")))


def test_a_folder_that_another_process_writes_to_is_not_touched(tmp_path: Path) -> None:
    stage: Any = Copies(Copy(tmp_path / "out"))
    with locked(tmp_path / "out"), pytest.raises(UnfinishedError, match="another ctxr process"):
        execute(stage)
    assert stage.runs == 0
