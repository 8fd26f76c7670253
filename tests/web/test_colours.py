"""A colour means one thing on every page: what the style sheets define, and where they use it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ctxr
from ctxr.pipelines.inspection import report
from ctxr.web.static import SHARED, StaticFiles

PACKAGE = Path(ctxr.__file__).parent
COLOURS = PACKAGE / "web" / "static" / "colours.css"
STYLES = sorted(PACKAGE.rglob("*.css"))
MEANT = {
    "target": {"target", "mark-target", "marked", "flag", "right", "good", "hit", "best", "read"},
    "wrong": {"wrong", "s-wrong", "missed", "picked", "bad", "reject", "review"},
    "near": {"near", "nearest"},
    "limit": {"limit", "limit-name", "edge"},
}
"""The words of selectors that may have each of the colours."""


def rules(file: Path) -> Iterator[tuple[str, str]]:
    """Selectors and declarations of a style sheet, without comments."""
    text = re.sub(r"/\*.*?\*/", "", file.read_text(encoding="utf-8"), flags=re.DOTALL)
    return ((selector.strip(), body) for selector, body in re.findall(r"([^{}]+)\{([^{}]*)\}", text))


def variables(file: Path) -> list[tuple[str, str]]:
    """The variables that a style sheet defines for its whole page, with their values."""
    return [
        one for selector, body in rules(file) if selector == ":root" for one in re.findall(r"--([\w-]+): (.*?);", body)
    ]


def test_every_page_has_the_one_definition_of_each_colour() -> None:
    defined = [(name, file) for file in STYLES for name, _ in variables(file)]
    assert {*MEANT} <= {name for name, file in defined if file == COLOURS}
    assert len({name for name, _ in defined}) == len(defined)
    (linked,) = {
        tuple(re.findall(r"static \}\}/(\w+)\.css", file.read_text(encoding="utf-8")))
        for file in PACKAGE.rglob("templates/*.html")
        if "<head>" in file.read_text(encoding="utf-8") and "stylesheet" in file.read_text(encoding="utf-8")
    }
    assert linked[0] == COLOURS.stem
    for package in ("ctxr.annotation.web", "ctxr.pipelines.finding"):
        assert StaticFiles(package)._files[COLOURS.name] == COLOURS.read_bytes()
    assert report._static(SHARED, COLOURS.name) == COLOURS.read_text(encoding="utf-8")


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_no_other_thing_has_the_colour_of_one_with_a_meaning(theme: int) -> None:
    values = {name: value for file in STYLES for name, value in variables(file)}
    assert values["limit"] == "var(--ink)"  # a threshold is dashed
    shown = {name: re.findall(r"#\w+", value)[theme] for name, value in values.items() if "light-dark" in value}
    for name in MEANT.keys() - {"limit"}:
        assert [other for other, colour in shown.items() if colour == shown[name]] == [name]
        written = [file.name for file in PACKAGE.rglob("static/*") if shown[name] in file.read_text(encoding="utf-8")]
        assert written == [COLOURS.name]


@pytest.mark.parametrize("meaning", MEANT)
def test_each_colour_is_used_for_what_it_means(meaning: str) -> None:
    used = [(selector, body) for file in STYLES for selector, body in rules(file) if f"var(--{meaning})" in body]
    assert used
    assert [one for one, _ in used if not MEANT[meaning] & {*re.findall(r"[\w-]+", one)}] == []
    drawn = [body for _, body in used if re.search(r"(stroke|border[\w-]*): [^;]*var\(--limit\)", body)]
    assert [body for body in drawn if "dash" not in body] == []
    assert bool(drawn) == (meaning == "limit")
