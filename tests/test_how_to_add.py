"""*How to add* in docs/house.md, followed in a copy: a verb and a problem, added by changing no file but those that it names."""

import inspect
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.problems import test_seventh_problem as line

ROOT = Path(__file__).resolve().parent.parent

VERB = {
    "ctxr/pipelines/inspection/config.py": '''

@dataclass(frozen=True)
class CountWords(Options):
    """Options of `ctxr count-words`."""

    ARGUMENT = "file"

    file: Path = Path("words.txt")
    """File of words."""


@dataclass(frozen=True)
class CountWordsReport(VerbReport):
    """The outcome of `ctxr count-words`."""

    words: int
''',
    "ctxr/pipelines/inspection/count_words.py": '''"""Count words."""

from ctxr.engine.progress import SILENT, Progress
from ctxr.pipelines.inspection.config import CountWords, CountWordsReport


def run(options: CountWords, progress: Progress = SILENT) -> CountWordsReport:
    """Count the words of a file."""
    return CountWordsReport(len(options.file.read_text(encoding="utf-8").split()))
''',
    "ctxr/cli/verbs.py": '\nVERBS["count-words"] = Command(\n    "ctxr.pipelines.inspection.count_words", "CountWords", "count_words"\n)\n',
    "ctxr/cli/words.py": '\nLINES["count-words"] = "Count the words of a file."\n',
    "ctxr/cli/views.py": '\n\ndef count_words(report):\n    yield Summary("Counted", {"words": report.words})\n',
}
"""What each file gains."""

PROBLEM = {
    "ctxr/problems/line/__init__.py": "",
    "ctxr/problems/line/question.py": inspect.getsource(line).partition("def test_")[0],
    "ctxr/problems/registry.py": '\nPROBLEMS = {"line": "ctxr.problems.line.question:Line", **PROBLEMS}\n',
}

BOTH = """from contextlib import suppress
from ctxr.cli.app import app
with suppress(SystemExit):
    app("train --recipe line.toml --dataset points.jsonl".split())
app("eval line --dataset points.jsonl --resamples 100".split())
"""

Run = Callable[..., str]


def named_files(thing: str) -> list[str]:
    """The files and folders that *How to add* names for a thing."""
    section = (
        (ROOT / "docs" / "house.md").read_text(encoding="utf-8").partition("## How to add")[2].partition("\n## ")[0]
    )
    entry = next(text for text in section.split("\n- ") if text.startswith(f"**{thing}**"))
    return [word for word in re.findall(r"`([^`]+)`", entry) if re.fullmatch(r"[\w./]+(/|\.py|\.md)", word)]


@pytest.fixture
def copied(tmp_path: Path) -> tuple[Path, Run]:
    """A copy of what a contributor changes, and what runs a module there."""
    for folder in ("ctxr", "scripts", "docs"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("*.jpg"))

    def run(*arguments: str) -> str:
        ran = subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=tmp_path,
            env={"PATH": "", "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    return tmp_path, run


def add(files: Mapping[str, str], root: Path) -> None:
    """Append to the files of a copy; new ones are made."""
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        with (root / name).open("a", encoding="utf-8") as file:
            file.write(text)


@pytest.mark.parametrize(("thing", "files"), [("A verb", VERB), ("A problem", PROBLEM)])
def test_every_file_that_a_thing_needs_is_named_and_there(thing: str, files: Mapping[str, str]) -> None:
    named = named_files(thing)
    there = [
        str(path.relative_to(ROOT)) + "/" * path.is_dir()
        for room in ("ctxr", "docs", "tests")
        for path in (ROOT / room).rglob("*")
    ]
    assert not [name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in there)]
    changed = [name for name in files if (ROOT / name).exists()]
    assert not [name for name in changed if not any(f"/{name}".endswith(f"/{one}") for one in named)]


def test_a_new_verb_has_help_runs_and_is_documented(copied: tuple[Path, Run]) -> None:
    root, run = copied
    add(VERB, root)
    (root / "words.txt").write_text("one two three\n")
    assert "Count the words of a file." in run("ctxr", "--help")
    assert json.loads(run("ctxr", "count-words", "words.txt", "--json"))["words"] == 3
    assert re.search(r"words +3", run("ctxr", "count-words", "words.txt"))
    run("scripts.cli_docs")
    assert "| `FILE` | `words.txt` | File of words. |" in (root / "docs" / "cli.md").read_text()


def test_a_new_problem_is_trained_and_evaluated_by_the_commands(copied: tuple[Path, Run]) -> None:
    root, run = copied
    add(PROBLEM, root)
    rows = [
        {
            "id": f"p{number}",
            "split": "train" if number % 3 else "test",
            "x": [number % 7 - 3.0, 0.0],
            "above": number % 7 < 3,
        }
        for number in range(60)
    ]
    (root / "points.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (root / "line.toml").write_text('variant = "line"\nlr = 0.1\nbatch = 16\nepochs = 30\n')
    # in one process, because most of its time goes into loading torch
    (root / "both.py").write_text(BOTH)
    run("both")
    figures = json.loads((root / "work" / "results" / "line" / "figures.json").read_text())["figures"]
    assert next(row["value"] for row in figures if row["measure"] == "accuracy") == pytest.approx(1.0)
