"""A verb that writes an artifact finds out cheaply that it is up to date: the second run imports no torch, writes no file, and makes
at most a twentieth of the calls of the first."""

import json
import os
import resource
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from PIL import Image

from ctxr.annotation.tasks import describe, retrieve
from ctxr.cli.commands import COMMANDS
from ctxr.datasets.open import read_dataset
from ctxr.engine.progress import SILENT
from ctxr.errors import INTERRUPTED
from ctxr.store.artifacts import MANIFEST
from ctxr.store.hashing import sha256_file
from ctxr.synthetic.benchmark import WorldBenchmark, write_benchmark
from ctxr.synthetic.captions import WorldCaptions, write_captions
from ctxr.synthetic.crowd import Page, Visitor, image_ids, served, work_in_turns
from scripts.golden import model_stub
from scripts.rehearse_audit import rehearse_audit
from tests.counted_run import CountedRun, counted_run
from tests.footage import two_shot_clip
from tests.models.blip_folder import make_blip
from tests.models.judges.nli_folder import make_nli
from tests.pipelines.world_dataset import write_world_dataset
from tests.releases import TRAIN, VALID, draw_sets, write_release

SHARE = 1 / 20
"""Of the calls of the first run, at most."""

TRAINED = "--set encoder=ctxr-tiny --set epochs=1"
LINKS = f"{TRAINED} --set features= --set text=encoder --set width=16"

LINES = {
    "build-sets": "build-sets footage -w sets --encoder ctxr-tiny --threshold 0.02",
    "filter": "filter -w sets --brisque 1.115",
    "merge": "merge -w ranks",
    "plan": "plan -w sets",
    "export imagecode": "export --to imagecode -w people --input people/drawn",
    "export hf": "export --to hf -w people --input people/drawn",
    "export webdataset": "export --to webdataset -w people --input people/drawn",
    "export croissant": "export --to croissant -w people --input people/drawn",
    "export fiftyone": "export --to fiftyone -w people --input people/drawn",
    "export mteb": "export --to mteb -w people --input people/drawn",
    "export recipe": "export --to recipe -w sets",
    "rebuild": "rebuild -w sets --videos footage",
    "export-tasks": "export-tasks describe -w people --input people/drawn --protocol protocol.toml",
    "aggregate": "aggregate -w people --resamples 50",
    "regions": "regions world -w models --extractor grid:ctxr-tiny --name grid",
    "train contextual": f"train -w models --dataset world --recipe clip-batch {TRAINED} --set batch=5",
    "listen": "listen world -w models --endpoint ENDPOINT --model stub --limit 3",
    "eval contextual": "eval clip-batch -w models --dataset world --split valid --resamples 50",
    "train entailment": "train -w captions --dataset captions/drawn --recipe entailment-tiny --set epochs=1",
    "eval entailment": "eval entailment-tiny -w captions --split test --resamples 50",
    "train gallery": f"train -w captions --dataset captions/drawn --recipe retrieval-clip {TRAINED} --set batch=16",
    "revise-labels": "revise-labels captions/drawn -w captions --entail --retriever ctxr-tiny --threshold 0.1 --per-image 3 --sample 6",
    "revise-labels cascade": "revise-labels captions/drawn -w cascade --entail --threshold 0.1 --top-k 3 "
    "--judge nli:nli@0.1-0.9 --judge itm:blip:itm@0.1-0.9 --judge endpoint:ENDPOINT#stub",
    "revise-labels file": "revise-labels captions/drawn -w judged --entail --retriever ctxr-tiny --judge file:judged.jsonl",
    "revise-labels precision": "revise-labels captions/drawn -w captions -o captions/precise --entail --retriever ctxr-tiny --top-k 3 "
    "--judge classifier:entailment-tiny --precision 0.1",
    "export-tasks entail": "export-tasks entail -w captions",
    "import-answers": "import-answers -w captions",
    "revise-labels audit": "revise-labels -w captions --audit",
    "eval gallery": "eval retrieval-clip -w captions --dataset captions/drawn --split test --resamples 50",
    "build-documents": "build-documents coco -w links --dataset captions/drawn --train 8 --valid 4 --test 4",
    "train links": f"train -w links --dataset links/documents --recipe links-dc {LINKS}",
    "eval links": "eval links-dc -w links --dataset links/documents --split test --resamples 50",
    "export links": "export --to links -w links --input links/documents --run links-dc",
    "export mmc4": "export --to mmc4 -w links --input links/documents --run links-dc",
    "pairs": "pairs captions/drawn -w links",
    "regions of a release": "regions release -w released --extractor grid:ctxr-tiny --name grid",
    "reproduce": "reproduce -w reproduced --data release",
    "eval on a release": "eval ctxr-tiny -w released --dataset release --split valid --resamples 50",
    "revise-labels of a release": "revise-labels release -w released --entail --unlicensed --retriever ctxr-tiny --sample 4",
}
"""Verbs that write an artifact, in an order in which each finds what it reads. ENDPOINT is the address of a model. A second --undo or
--redo of a round is an error."""

BEFORE = {
    "merge": (
        "build-sets footage -w ranks --encoder ctxr-tiny --threshold 0.02 --rank 0 --world-size 2",
        "build-sets footage -w ranks --encoder ctxr-tiny --threshold 0.02 --rank 1 --world-size 2",
    ),
}
"""Commands that come before a line."""

PROOFS = (
    *(f"export {name}" for name in ("hf", "webdataset", "croissant", "fiftyone", "mteb", "mmc4")),
    "revise-labels cascade",
    "regions of a release",
    "revise-labels of a release",
)
"""Lines of verbs that have another line, which no later line builds on."""

ROWS = [pytest.param(line, marks=pytest.mark.prove if line in PROOFS else ()) for line in LINES]

BROKEN = {
    "rebuild": "sets/rebuilt",
    "export recipe": "sets/export-recipe",
    "export-tasks": "people/tasks/describe",
    "aggregate": "people/dataset",
    "pairs": "links/pairs",
    "eval on a release": "released/results/ctxr-tiny",
    "revise-labels file": "judged/revised",
}
"""What lines write that are broken off: at least one of each group of verbs that writes artifacts."""

NO_ARTIFACT = {
    "workers": "prints estimates; a change of a worker is an event of the journal",
    "report": "writes a page, whose bytes are equal",
    "push": "writes elsewhere; tests/pipelines/sharing/test_push.py sees that nothing is sent twice",
    "pull": "writes what others made; tests/pipelines/sharing/test_pull.py sees that nothing is fetched twice",
    "verify": "prints what differs",
    "stats": "prints figures",
    "shortcuts": "prints figures",
    "serve": "writes the journal",
    "search": "answers a query; tests/pipelines/finding/test_search.py sees that its index is up to date",
    "status": "prints what is there",
    "diff": "prints what differs",
    "agreement": "prints figures, and writes files whose bytes are equal",
    "doctor": "prints what it checked",
    "run": "runs the other verbs",
    "init": "writes a file, once",
    "demo": "runs the other verbs",
}
"""Verbs that write no artifact, and why there is no second run to compare."""


class Describer(Visitor):
    """Writes eight words, and knows what everybody has written."""

    written: dict[str, str]

    def answer(self, page: Page) -> Page | None:
        """Describe, or find, whichever the page asks for."""
        images = self.images(page)
        if page.form(describe.FIELD) is not None:
            text = " ".join(
                self._rng.choice(("red", "blue", "big", "small", "round", "flat", "old", "new"), 8).tolist()
            )
            self.written[text] = images[page.marked or page.pictures[0]]
            return self.send(page, describe.FIELD, [text])
        if page.form(retrieve.FIELD) is None:
            return None
        target = self.written[" ".join(page.quotes[0].split())]
        (address,) = (address for address, image in images.items() if image == target)
        return self.send(page, retrieve.FIELD, [address.rpartition("/")[2]])


def describe_all(workdir: Path, dataset: Path, count: int = 3) -> None:
    """Let so many people write and read all descriptions."""
    pictures, written = image_ids(read_dataset(dataset)), dict[str, str]()
    with served(workdir, count) as opened:
        links = opened.links.items()
        people = [Describer(name, link, pictures, np.random.default_rng(at)) for at, (name, link) in enumerate(links)]
        for person in people:
            person.written = written
        work_in_turns(people, lambda _: None)


PEOPLE: Mapping[str, Callable[[], object]] = {
    "aggregate": lambda: describe_all(Path("people"), Path("people/drawn")),
    "import-answers": lambda: rehearse_audit(Path("captions"), Path("captions/drawn"), 7, SILENT),
}
"""What people do before a line."""


ESTIMATES = ("listen", "revise-labels")
"""Verbs whose dry run is a report of its own: requests, tokens and their price."""


def everything(root: Path) -> dict[Path, int]:
    """Every file and folder, and when it was last changed."""
    return {path: path.stat().st_mtime_ns for path in root.rglob("*")}


def draw(root: Path) -> None:
    """What the lines read."""
    two_shot_clip(root / "footage" / "clip.mp4", 0, frames=60)
    rng = np.random.default_rng(5)
    (root / "footage" / "album").mkdir()
    for number in range(14):
        coarse = Image.fromarray(rng.integers(0, 255, (6, 8, 3)).astype(np.uint8))
        coarse.resize((96, 72), Image.Resampling.BICUBIC).save(root / "footage" / "album" / f"p{number}.png")
    write_world_dataset(root / "people" / "drawn")
    (root / "protocol.toml").write_text('targets = 1\ndisjoint = "none"\n', encoding="utf-8")
    write_benchmark(WorldBenchmark(root / "world", train=12, valid=6, test=6, video=0.5, side=48, workers=1))
    sizes = {"train": 16, "valid": 16, "test": 24, "pair_train": 8, "pair_valid": 8}
    draw_sets(write_release(root / "release", test=None), [*TRAIN, *VALID])
    make_nli(root / "nli")
    make_blip(root / "itm")
    write_captions(WorldCaptions(root / "captions" / "drawn", **sizes, side=32, workers=1))  # type: ignore[arg-type]
    dataset = read_dataset(root / "captions" / "drawn")
    pairs = [{"image": image, "caption": query, "p": 0.9} for image in dataset.images for query in dataset.queries]
    (root / "judged.jsonl").write_text("".join(f"{json.dumps(pair)}\n" for pair in pairs), encoding="utf-8")


@dataclass(frozen=True)
class FirstRuns:
    """The folder that all commands run in, the address of the model, and the first run of each line."""

    root: Path
    endpoint: str
    runs: Mapping[str, CountedRun]
    dry: dict[str, tuple[CountedRun, bool]] = field(default_factory=dict)
    """A dry run of each line before its first run, and whether all files stayed as they were."""

    def words(self, line: str) -> list[str]:
        """A line as it is typed."""
        return shlex.split(LINES[line].replace("ENDPOINT", self.endpoint))

    def files(self) -> dict[Path, tuple[int, int]]:
        """The inode of each file and when it was last changed; the history of a project grows with every run."""
        history = set(self.root.glob("*/history.jsonl"))
        files = (file for file in self.root.rglob("*") if file.is_file() and file not in history)
        return {file: (file.stat().st_ino, file.stat().st_ctime_ns) for file in files}


@pytest.fixture(scope="module")
def first(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FirstRuns]:
    root = tmp_path_factory.mktemp("second-runs")
    proven = any(item.get_closest_marker("prove") for item in request.session.items if item.path == request.path)
    draw(root)
    with model_stub() as endpoint, pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        done = FirstRuns(root, endpoint, {})
        runs = dict[str, CountedRun]()
        for line in (line for line in LINES if proven or line not in PROOFS):
            for words in BEFORE.get(line, ()):
                assert counted_run(shlex.split(words)).code == 0
            if line in PEOPLE:
                PEOPLE[line]()
            before = everything(root)
            done.dry[line] = counted_run([*done.words(line), "--dry-run"]), everything(root) == before
            runs[line] = counted_run(done.words(line))
        yield FirstRuns(root, endpoint, runs, done.dry)


SecondRun = Callable[[str, Path], CountedRun]


@pytest.fixture(scope="module")
def second_run(first: FirstRuns) -> Iterator[SecondRun]:
    """Runs the same command in a process that has loaded nothing for the first one, and writes a file."""
    command = [sys.executable, "-m", "tests.counted_run", *dict.fromkeys(words.split()[0] for words in LINES.values())]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent.parent), *sys.path])}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=first.root, env=environment, stdin=pipe, stdout=pipe, text=True) as server:
        assert server.stdin
        assert server.stdout
        asked, answers = server.stdin, server.stdout

        def run(line: str, out: Path) -> CountedRun:
            asked.write(json.dumps([str(out), *first.words(line)]) + "\n")
            asked.flush()
            assert answers.readline()
            return CountedRun(**json.loads(out.read_text(encoding="utf-8")))

        yield run


@pytest.mark.parametrize("line", ROWS)
def test_second_run_does_nothing(line: str, first: FirstRuns, second_run: SecondRun, tmp_path: Path) -> None:
    before, run = first.files(), first.runs[line]
    assert (run.code, run.document["up_to_date"]) == (0, False)
    assert run.document["next"].startswith("ctxr ")
    again = second_run(line, tmp_path / "run.json")
    assert (again.code, again.document["up_to_date"], again.torch) == (0, True, False)
    assert first.files() == before
    assert 0 < again.calls <= SHARE * run.calls


@pytest.mark.parametrize("line", ROWS)
def test_a_dry_run_says_what_would_be_done_and_writes_nothing(line: str, first: FirstRuns) -> None:
    run, untouched = first.dry[line]
    assert (run.code, untouched) == (0, True)
    if line.split()[0] not in ESTIMATES or line == "revise-labels audit":
        assert run.document["would"].startswith("would write ")
        assert any(run.document["plan"].values())
        assert run.document["next"].startswith(f"ctxr {line.split()[0]} ")


def tree(folder: Path) -> dict[Path, str]:
    """The hash of each file by its place in a folder."""
    return {file.relative_to(folder): sha256_file(file) for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize(("line", "artifact"), BROKEN.items())
def test_what_breaks_off_is_told_and_the_next_run_writes_the_same_bytes(
    line: str, artifact: str, first: FirstRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(first.root)
    whole, again = first.root / artifact, (first.root / f"{artifact}-again")
    words = [*first.words(line), "--out", str(again)]
    limits, ignored = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with redirect_stderr(StringIO()):
            told = counted_run(words)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert told.code == 1
    assert "disk is full" in told.document["error"]
    with monkeypatch.context() as patch:
        patch.setattr("ctxr.engine.stage.finish", Mock(side_effect=KeyboardInterrupt))
        assert counted_run(words).code == INTERRUPTED
    assert not (again / MANIFEST).exists()
    assert counted_run(words).code == 0
    assert tree(again) == tree(whole)


def test_each_verb_has_a_second_run_or_writes_no_artifact() -> None:
    verbs = {line.split()[0] for line in LINES.values()}
    assert verbs.isdisjoint(NO_ARTIFACT)
    assert verbs.union(NO_ARTIFACT) == COMMANDS.keys()
