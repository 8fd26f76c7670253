"""Every command of README, of the tutorial and of the pages of papers, and the example of each command's help, runs as it is typed.

Each section of README, each page of a paper, and the tutorial is a project of its own, in a folder with what its lines name; the examples
of help are one project, in the order of `ORDER`. The processes that serve end by Ctrl-C, and take a free port.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile
from pathlib import Path
from unittest.mock import Mock
from urllib.request import urlopen

import pytest

from ctxr.cli.app import app
from ctxr.cli.commands import COMMANDS
from ctxr.cli.words import EXAMPLES
from ctxr.engine.progress import SILENT
from ctxr.synthetic.captions import WorldCaptions, write_captions
from ctxr.synthetic.dialogues import write_dialogues
from ctxr.synthetic.narratives import write_narratives
from ctxr.synthetic.world.footage import WorldConfig, write_world
from scripts.rehearse_audit import rehearse_audit
from tests.problems.links.written import write_documents
from tests.releases import TRAIN, VALID, draw_sets, write_release
from tests.test_second_runs import describe_all

ROOT = Path(__file__).resolve().parent.parent
LINE = re.compile(r"^    ((?:ctxr|python) .*?) *(?:#.*)?$", re.MULTILINE)


def typed(document: str) -> dict[str, list[str]]:
    """Lines of a document by the heading that they stand under."""
    text = (ROOT / document).read_text(encoding="utf-8")
    parts = (part.partition("\n") for part in text.split("\n## "))
    return {name: lines for name, _, text in parts if (lines := LINE.findall(text))}


PAPERS = ("dialogues", "entailment", "imagecode", "intent", "links", "traces")
SECTIONS = {name: lines for name, lines in typed("README.md").items() if name != "Your own model"}
SECTIONS |= {page: next(iter(typed(f"docs/{page}.md").values())) for page in PAPERS}
"""Lines of README by heading, those about a model of one's own aside, which run in `tests/pipelines/modelling/test_own_model.py`; and the
lines above the first heading of pages of papers."""

TUTORIAL = [line for lines in typed("docs/tutorial.md").values() for line in lines]

REFUSED = {
    "ctxr train --recipe retrieval-clip-weak": (1, "its encoder is downloaded"),
    "ctxr eval --recall 1,5,10": (4, "of the run that could not be trained"),
    "ctxr train --recipe dialogue --dataset photochat/": (1, "its encoder is downloaded"),
    "ctxr train --recipe intent-bert --dataset photochat/": (1, "its encoder is downloaded"),
    "ctxr train --recipe intent-albert --dataset photochat/": (1, "its encoder is downloaded"),
    "ctxr train --recipe intent-t5 --dataset photochat/": (1, "its encoder is downloaded"),
    "ctxr eval intent-bert intent-albert intent-t5": (2, "of the runs that could not be trained"),
    "ctxr eval intent-bert dialogue": (2, "of the runs that could not be trained"),
}
"""Lines that run up to their refusal, with the exit code and why."""

SHORTENED = {
    "ctxr build-documents coco --dataset captions/": (
        "--train 12 --valid 4 --test 4",
        "thousands of documents to learn from",
    ),
    "ctxr train --recipe intent-tiny --dataset photochat/": ("--set epochs=1", "minutes of training"),
    "ctxr train --recipe links-ap": ("--set epochs=1", "hours of training"),
    "ctxr train --recipe clip-batch --set encoder=ctxr-tiny": ("--set epochs=1", "minutes of training"),
    "ctxr eval clip-batch ctxr-tiny --compare": ("--resamples 50 --permutations 50", "10,000 draws"),
    "ctxr demo": ("--help", "minutes; it has a test of its own"),
}
"""Lines with more words than are typed, which make them short, and why."""

PEOPLE_INVITED = 30

PEOPLE: Mapping[str, Callable[[], object]] = {
    "ctxr import-answers": lambda: describe_all(Path("work"), Path("work/filtered"), PEOPLE_INVITED),
    "ctxr aggregate": lambda: describe_all(Path("work"), Path("work/filtered"), PEOPLE_INVITED),
    "ctxr revise-labels --audit": lambda: rehearse_audit(Path("work"), Path("photos"), 7, SILENT),
}
"""What people do before a line."""

ORDER = shlex.split(
    "init build-sets merge filter diff agreement reproduce status run doctor verify export push pull rebuild plan export-tasks serve "
    "import-answers aggregate workers stats shortcuts report regions train eval listen search revise-labels build-documents pairs demo"
)
"""Commands in the order in which their examples are run, each on what those before it made."""

SETS = ("ctxr build-sets videos/", "ctxr filter --brisque 0.65")
BEFORE = {
    "Ask people": SETS,
    "Train and evaluate models": (*SETS, "ctxr export-tasks describe", "ctxr aggregate"),
}
"""What the sections above have made."""


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the lines name."""
    folder = tmp_path_factory.mktemp("drawn")
    write_world(folder, WorldConfig(7, videos=3, seconds=4.0, albums=0))
    shutil.rmtree(folder / "photos")
    write_captions(WorldCaptions(folder / "photos", 24, 16, 24, pair_train=8, pair_valid=8, side=32, workers=1))
    shutil.copytree(folder / "photos", folder / "captions")
    shutil.copytree(folder / "photos" / "images" / "pair-valid", folder / "PHOTOS")
    (folder / "votes.csv").write_text("item,worker,value\na,x,1\na,y,1\nb,x,2\nb,y,1\n")
    write_documents(folder / "articles")
    write_narratives(folder / "narratives", {"train": 8, "valid": 4, "test": 4}, 0)
    write_dialogues(folder / "photochat", {"train": 8, "valid": 6, "test": 6}, 0)
    draw_sets(write_release(folder / "imagecode", test=None), [*TRAIN, *VALID])
    return folder


@pytest.fixture(scope="module")
def after(drawn: Path) -> dict[tuple[str, ...], Path]:
    """Folders after lines: what several sections begin with is made once."""
    return {(): drawn}


def folder_after(lines: tuple[str, ...], after: dict[tuple[str, ...], Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which these lines were run."""
    if lines not in after:
        before = folder_after(lines[:-1], after, monkeypatch)
        monkeypatch.chdir(shutil.copytree(before, after[()].with_name(f"after{len(lines)}")))
        assert run_all(lines[-1:]) == {}
        after[lines] = Path.cwd()
    return after[lines]


@pytest.fixture
def here(drawn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder with what the lines name."""
    monkeypatch.chdir(shutil.copytree(drawn, tmp_path / "here"))


def until_it_serves(words: list[str]) -> int:
    """Exit code of a line that serves, ended by Ctrl-C once it has said where."""
    command = [sys.executable, "-u", "-m", "ctxr", *words, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = "".join(takewhile(lambda line: "Ctrl-C" not in line, process.stdout))
        (address,) = re.findall(r" at (http://\S+)", said)
        with urlopen(address):  # noqa: S310 - ours
            process.send_signal(signal.SIGINT)
        process.communicate()
    return process.returncode


def call(line: str) -> int:
    """Exit code of a line."""
    program, *words = shlex.split(line)
    if program == "python":
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        return subprocess.run([sys.executable, *words], env=os.environ | {"PYTHONPATH": path}, check=False).returncode
    if words[0] == "serve" or (words[0] == "search" and "--text" not in words):
        return until_it_serves(words)
    with pytest.raises(SystemExit) as ended:
        app(words)
    return int(ended.value.code or 0)


def run(line: str) -> int:
    """Exit code of a line that people come before, or that is made short."""
    PEOPLE.get(line, lambda: None)()
    return call(f"{line} {SHORTENED.get(line, ('',))[0]}")


def run_all(lines: Iterable[str]) -> dict[str, int]:
    """Lines that ended otherwise than they should, with their exit codes."""
    codes = [(line, run(line)) for line in lines]
    return {line: code for line, code in codes if code != REFUSED.get(line, (0, ""))[0]}


def test_each_line_has_words_that_its_command_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctxr.cli.call.call_process", call_process := Mock())
    typed_lines = (line for lines in (*SECTIONS.values(), TUTORIAL, EXAMPLES.values()) for line in lines)
    lines = [line for line in typed_lines if line.startswith("ctxr ")]
    for line in lines:
        with pytest.raises(SystemExit) as ended:
            app(shlex.split(line)[1:])
        assert (line, ended.value.code) == (line, 0)
    assert call_process.call_count == len(lines)


@pytest.mark.prove
@pytest.mark.parametrize("section", SECTIONS)
def test_each_section_of_readme_and_each_page_of_a_paper_runs_as_typed(
    section: str, after: dict[tuple[str, ...], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = folder_after(BEFORE.get(section, ()), after, monkeypatch)
    monkeypatch.chdir(shutil.copytree(before, tmp_path / "here"))
    assert run_all(SECTIONS[section]) == {}


@pytest.mark.prove
@pytest.mark.usefixtures("drawn_figures")
def test_the_tutorial_runs_as_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert [line for line in TUTORIAL if call(line)] == []
    assert {"work/export-imagecode", "work/results"} <= {str(one) for one in Path("work").iterdir()}


def test_the_order_of_examples_has_every_command() -> None:
    assert COMMANDS.keys() == {*ORDER}


@pytest.mark.prove
@pytest.mark.usefixtures("here")
def test_each_example_of_help_runs_as_typed() -> None:
    assert run_all(EXAMPLES.get(name, f"ctxr {name}") for name in ORDER) == {}


def test_only_lines_that_are_run_are_excused() -> None:
    lines = {
        line for lines in (*SECTIONS.values(), EXAMPLES.values(), [f"ctxr {name}" for name in ORDER]) for line in lines
    }
    assert {*REFUSED, *SHORTENED, *PEOPLE} <= lines
    assert {*BEFORE} <= {*SECTIONS}
