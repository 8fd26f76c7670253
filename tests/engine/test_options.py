"""Options: ranges, choices, identity, and the command that repeats them follow from the fields alone."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

import pytest

from ctxr.engine.options import Choices, NotDecisive, Options, Range, option_name
from ctxr.errors import UsageError


@dataclass(frozen=True)
class Build(Options):
    """Options of a verb that does not exist."""

    COMMAND: ClassVar[str] = "build"

    sources: tuple[str, ...] = ()
    """Where from."""
    workdir: Path = Path("work")
    """Where to."""
    words: Path | None = None
    """File of words."""
    workers: Annotated[int, NotDecisive] = 2
    """How many."""
    threshold: Annotated[float | None, Range(0, 2, "a distance: 0..2")] = None
    """How far,
    at least."""
    share: Annotated[float, Range(0, 1, "a share above 0, at most 1", above=True)] = 1.0
    """How much."""
    detector: Annotated[str, Choices(("adaptive", "hash"))] = "adaptive"
    """Which."""
    loud: bool = False
    """Whether loud."""

    def rules(self) -> Iterator[tuple[str, str]]:
        """What does not go together."""
        if self.loud and self.detector == "hash":
            yield "--loud and --detector hash exclude each other", "leave one out"


@pytest.mark.parametrize(
    ("changes", "sentence", "hint"),
    [
        ({"threshold": 3.0}, "--threshold 3.0 .*range", "give a distance: 0..2"),
        ({"threshold": float("nan")}, "--threshold nan .*range", "give a distance: 0..2"),
        ({"share": 0.0}, "--share 0.0 .*range", "above 0, at most 1"),
        ({"detector": "adaptiv"}, "--detector adaptiv .*unknown", "did you mean --detector adaptive?"),
        ({"detector": "zzz"}, "--detector zzz .*unknown", "adaptive, hash"),
        ({"detector": ""}, "--detector is missing", "adaptive, hash"),
        ({"loud": True, "detector": "hash"}, "--loud and --detector hash .*", "leave one out"),
    ],
)
def test_a_value_that_is_not_admitted_is_one_sentence_with_a_hint(
    changes: dict[str, object], sentence: str, hint: str
) -> None:
    with pytest.raises(UsageError, match=f"^{sentence}$") as caught:
        replace(Build(), **changes).check()  # type: ignore[arg-type]
    assert hint in caught.value.hint


def test_every_option_decides_the_result_unless_it_says_otherwise_or_is_a_path() -> None:
    assert Build(threshold=2.0, share=0.01, detector="hash").check().threshold == Build().check().share + 1
    options = Build(loud=True, workdir=Path("elsewhere"), words=Path("words.txt"), workers=3)
    assert options.key() == {"sources": (), "threshold": None, "share": 1.0, "detector": "adaptive", "loud": True}
    assert options.decisive() == Build(loud=True)


def test_the_command_is_repeated_without_what_is_at_its_default() -> None:
    options = Build(("a b", "c"), Path("w"), detector="hash")
    assert options.command_line() == "ctxr build --sources 'a b' --sources c --workdir w --detector hash"
    assert Build(loud=True).command_line("words", loud=False) == "ctxr build words"


def test_help_is_the_text_below_a_field_on_one_line_and_a_field_needs_a_default() -> None:
    assert Build.describe()["threshold"].help == "How far, at least."
    assert Build.describe()["detector"].kind is str

    @dataclass(frozen=True)
    class Bare(Options):
        name: str

    with pytest.raises(TypeError, match="name of Bare"):
        Bare("x").check()


def test_a_field_that_python_cannot_name_is_typed_otherwise() -> None:
    assert [*map(option_name, ("platform_of", "changes", "set_size"))] == ["--from", "--set", "--set-size"]
