"""The two verbs at the front door: light to import, every option explained, one sentence for what is missing."""

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ctxr.cli.app import app
from ctxr.cli.options import field_help
from ctxr.pipelines.listen import Listen
from ctxr.pipelines.regions import RegionsConfig


@pytest.mark.parametrize("config", [Listen, RegionsConfig])
def test_every_option_explains_itself(config: type) -> None:
    texts = field_help(config)
    assert set(texts) == {field.name for field in fields(config)}
    assert all(text.endswith(".") for text in texts.values())


def test_the_verbs_are_light_to_import() -> None:
    heavy = "{'torch', 'numpy', 'cv2', 'PIL', 'httpx', 'transformers'}"
    code = f"import ctxr.cli.regions, ctxr.cli.listen, sys\nprint(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["regions", "--by", "magic"], "none of grid:ENCODER"),
        (["listen", "--model", "x"], "no --endpoint is named"),
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
