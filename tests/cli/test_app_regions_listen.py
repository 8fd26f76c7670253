"""The two verbs at the front door: one sentence for what is missing."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from ctxr.cli.app import app


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["regions", "--by", "magic"], "none of grid:ENCODER"),
        (["listen", "--model", "x"], "--endpoint is missing"),
        (["listen", "--endpoint", "http://example.org/v1", "--model", "x"], "in the clear"),
    ],
)
def test_wrong_words_end_with_2(words: list[str], message: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [*words, "-w", str(tmp_path)])
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


@pytest.mark.parametrize("words", [["regions"], ["listen", "--endpoint", "http://localhost:1", "--model", "x"]])
def test_a_project_without_sets_ends_with_4(words: list[str], tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [*words, "-w", str(tmp_path)])
    assert result.exit_code == 4
    assert "holds no finished image sets" in " ".join(result.output.split())
