"""Does the working tree write the same as another commit? `python -m scripts.golden BASE [--figures] [--keep FOLDER]`.

A chain of commands on fixed seeds runs with the code of BASE (a worktree of its own) and with that of the working tree, one after
the other in the same folder, with the same Python, one thread, an empty home, and with keys and times that are drawn alike. What
both wrote and printed is compared byte by byte. It prints every file that differs, in the order in which they were written, and
where: what comes first is the cause, since manifests hold the hashes of what they were made from. 0 when all is equal, 1 when not.

`--figures` compares sets, scores, tensors, figures and tables alone, by value: `scripts.golden_figures` says what is left out.
`--before FOLDER` takes what the chain wrote before from the folder of an earlier `--keep`, in place of BASE.
"""

import hashlib
import json
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
import threading
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scripts.golden_figures import array_differences, compared, figures_of, has_arrays

ROOT = Path(__file__).resolve().parent.parent

CHAIN = """\
demo --videos 2 --seconds 6 --photos 16 --queries 24 --pairs 8 --gallery 24
plan -w demo/work
workers -w demo/work
export-tasks retrieve -w demo/work --backend label-studio --image-base https://example.org/ --out demo/work/label-studio
export --to imagecode -w demo/work
export --to hf -w demo/work
export --to webdataset -w demo/work
export --to croissant -w demo/work
export --to fiftyone -w demo/work
export --to recipe -w demo/work
rebuild -w demo/work --videos demo/world
verify -w demo/work demo/work/filtered
doctor -w demo/work demo/work
python -m scripts.context_proof models --train 24 --valid 3 --test 8
regions models/dataset -w models --extractor grid:ctxr-tiny --name grid
train -w models --recipe uniter-temporal --set encoder=random:uniter-tiny:512 --set regions=grid --set lr=1e-3 --set epochs=2
train -w models --recipe vilbert-batch --set encoder=random:vilbert-tiny:512 --set regions=grid --set epochs=1
listen models/dataset -w models --endpoint ENDPOINT --model stub --split test --shifts 2 --at-once 1
eval -w models --split test --compare --resamples 100
stats -w models models/dataset
shortcuts -w models models/dataset
report -w models
python -m scripts.world_captions captions/dataset --train 24 --valid 0 --test 24 --pair-train 8 --pair-valid 8
train -w captions --recipe entailment-tiny --set epochs=4
eval -w captions entailment-tiny --split test --resamples 100
revise-labels -w captions --entail --retriever ctxr-tiny --threshold 0.1 --per-image 3 --sample 16
export-tasks entail -w captions
python -m scripts.rehearse_audit captions
revise-labels -w captions --audit
train -w captions --recipe retrieval-clip-weak --set encoder=ctxr-tiny --set batch=96 --set epochs=2 --set precision=fp32
train -w captions --recipe retrieval-blip-weak --set encoder=random:blip-tiny --set rerank=4 --set rerank_by=ctxr-tiny --set epochs=1
eval -w captions retrieval-clip-weak retrieval-blip-weak --split test --compare --resamples 100 --permutations 100
report -w captions
revise-labels -w captions --undo
revise-labels -w captions --redo
revise-labels -w captions --entail --both --split test --per-image 1 --retriever ctxr-tiny
python -m scripts.world_documents links --kinds story-sis --train 12 --valid 4 --test 8
python -m scripts.world_captions links/captions --train 64 --valid 64 --test 64 --pair-train 0 --pair-valid 0
build-documents coco -w links --dataset links/captions --train 12 --valid 4 --test 8
train -w links --dataset links/documents --recipe links-dc LINKS --set lr=1e-3 --set epochs=2
train -w links --dataset links/documents --recipe links-ap LINKS --set lr=1e-3 --set epochs=2
eval -w links links-dc links-ap ctxr-tiny --dataset links/documents --split test --compare --resamples 100 --permutations 100
export --to links -w links --input links/documents --run links-dc
export --to mmc4 -w links --input links/documents --run links-dc
train -w stories --dataset links/story-sis --recipe links-tk LINKS --set epochs=1
eval -w stories --split test --resamples 100
pairs sample -w pairs --out pairs/sample
pairs own -w demo/work --out pairs/own
pairs models/dataset -w pairs --out pairs/captioned
pairs captions/dataset -w pairs --out pairs/published
build-sets demo/world/videos demo/world/photos -w ranks --rank 0 --world-size 2
build-sets demo/world/videos demo/world/photos -w ranks --rank 1 --world-size 2
merge -w ranks
"""
"""Commands of ctxr, and of Python, run one after another in an empty folder. The demo builds and filters sets, asks its crowd and
aggregates; then seven variants of ImageCoDe are trained, and a classifier, whose round people audit and retrieval learns from; links
are learned, and two ranks build sets. ENDPOINT is the address of `model_stub`, LINKS small towers over ctxr-tiny."""

LINKS = "--set encoder=ctxr-tiny --set features= --set text=encoder --set width=64"

HISTORY = "history.jsonl"
"""File of a project that says when its commands ran, which differs between equal runs."""

PRINTED = "printed"
"""Folder of what the commands printed."""

FIXED = """
import datetime, hashlib, secrets
from collections import Counter
from importlib.machinery import SourceFileLoader
from itertools import count

drawn, seconds = Counter(), count()


def token_bytes(size=None):
    drawn[size] += 1
    return hashlib.shake_256(b"%d %d" % (size or 0, drawn[size])).digest(size or 32)


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime(2026, 1, 1, tzinfo=tz) + datetime.timedelta(seconds=next(seconds))


def exec_module(loader, module, plain=SourceFileLoader.exec_module):
    plain(loader, module)
    if module.__name__.startswith("ctxr.") and vars(module).get("datetime") is datetime.datetime:
        module.datetime = Clock


secrets.token_bytes, SourceFileLoader.exec_module = token_bytes, exec_module
"""
"""`sitecustomize.py` of the runs. The n-th secret of a size is always the same, so that workers keep their pseudonyms; a second
passes each time that a module of ctxr asks for the time."""


class BrokenChain(Exception):
    """A command of the chain failed."""


class ModelStub(BaseHTTPRequestHandler):
    """Stands for a language model behind an endpoint: picks a number from 1 to 10, or yes or no, by the hash of what it is asked."""

    def do_POST(self) -> None:
        """Answer a chat completion."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"][-1]["content"]
        number = hashlib.sha256(json.dumps(asked).encode()).digest()[0] % 10 + 1
        text = ("yes", "no")[number % 2] if "yes or no" in str(asked) else str(number)
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1000, "completion_tokens": number}
        content = json.dumps({"model": "stub", "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def model_stub() -> Iterator[str]:
    """The address of a server that answers as ModelStub does, for the length of a with-block."""
    with ThreadingHTTPServer(("127.0.0.1", 0), ModelStub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()


def run_chain(code: Path, base: Path, kept: Path, words: Mapping[str, str]) -> None:
    """Run the chain in `base/run` with the code of a folder, and move what it wrote to `kept`: no path tells the runs apart.

    Args:
        words: of its lines, and what stands in their place.
    """
    run, home, fixed = base / "run", base / "home", base / "fixed"
    for folder in (run, home, fixed):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    (fixed / "sitecustomize.py").write_text(FIXED, encoding="utf-8")
    (run / PRINTED).mkdir()
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "PYTHONPATH": f"{fixed}{os.pathsep}{code}",
        "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PIP_NO_INDEX": "1", "COLUMNS": "200",
    }  # fmt: skip
    for number, line in enumerate(CHAIN.splitlines()):
        said = line
        for word, other in words.items():
            said = said.replace(word, other)
        name, *rest = shlex.split(said)
        own = name != "python"
        command = [sys.executable, *(["-m", "ctxr", name, *rest, "--json"] if own else rest)]
        done = subprocess.run(command, cwd=run, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BrokenChain(f"{kept.name}: {line} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        if own:  # a script may print seconds
            (run / PRINTED / f"{number:02}-{name}.json").write_text(done.stdout, encoding="utf-8")
        print(f"{kept.name}: {line}", file=sys.stderr, flush=True)
    run.rename(kept)


def files_of(folder: Path, figures: bool) -> dict[str, Path]:
    """Files that must be equal, by their path in the folder, in the order in which they were written."""
    files = [file for file in folder.rglob("*") if file.is_file() and file.name != HISTORY]
    named = {
        file.relative_to(folder).as_posix(): file for file in sorted(files, key=lambda one: one.stat().st_mtime_ns)
    }
    return {name: file for name, file in named.items() if not figures or compared(name, file)}


def content_of(file: Path) -> bytes:
    """What is compared of a file: its bytes; of a database its dump, sorted, since its indexes are made in the order of a set."""
    if file.suffix != ".sqlite":
        return file.read_bytes()
    connection = sqlite3.connect(f"file:{file}?immutable=1", uri=True)
    try:
        return "\n".join(sorted(connection.iterdump())).encode()
    finally:
        connection.close()


def place_of(before: bytes, after: bytes) -> str:
    """Where two contents first differ: a line and its key where they are text, else a byte."""
    try:
        rows, others = before.decode().split("\n"), after.decode().split("\n")
    except UnicodeDecodeError:
        at = next((at for at, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), None)
        return f"byte {min(len(before), len(after)) if at is None else at} of {len(before)} and {len(after)}"
    number, row, other = next((n, *pair) for n, pair in enumerate(zip_longest(rows, others), 1) if pair[0] != pair[1])
    try:
        values = json.loads(before), json.loads(after)
    except ValueError:
        try:
            values = json.loads(row or ""), json.loads(other or "")
        except ValueError:
            values = row, other
    key, *pair = next(differences("", *values), ("", row, other))
    return f"line {number}{key}: " + ", now ".join(shown(value) for value in pair)


def differences(key: str, before: Any, after: Any) -> Iterator[tuple[str, Any, Any]]:
    """Keys at which two values of JSON differ, with both values."""
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        for name in before:
            yield from differences(f"{key} {name}", before[name], after[name])
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield f"{key} length", len(before), len(after)
        for at, pair in enumerate(zip(before, after, strict=False)):
            yield from differences(f"{key} [{at}]", *pair)
    elif isinstance(before, dict) and isinstance(after, dict):
        yield f"{key} has", sorted(before.keys() - after.keys()), sorted(after.keys() - before.keys())
    elif before != after:
        yield key, before, after


def shown(value: Any) -> str:
    """A value, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else f"{text[:160]}…"


def figure_places(before: Any, after: Any) -> str:
    """Where the figures of two files differ: the first place, and how many follow; "" where they are the same."""
    if isinstance(before, bytes) and isinstance(after, bytes):
        places = [place_of(before, after)] if before != after else []
    elif has_arrays(before) and has_arrays(after):
        places = list(array_differences(before, after))
    else:
        found = differences("", before, after)
        places = [f"{key}: {shown(one)}, now {shown(other)}".strip() for key, one, other in found]
    more = f" (and {len(places) - 1} more)" if len(places) > 1 else ""
    return places[0] + more if places else ""


def compare(before: Path, after: Path, figures: bool = False) -> tuple[int, list[str]]:
    """How many files there are, and a line for each that is not the same in both folders."""
    old, new = files_of(before, figures), files_of(after, figures)
    lines = []
    for name in {**old, **new}:
        if name not in new or name not in old:
            lines.append(f"{name}: only {'before' if name in old else 'now'}")
        elif figures:
            printed = name.startswith(f"{PRINTED}/")
            if place := figure_places(figures_of(old[name], printed), figures_of(new[name], printed)):
                lines.append(f"{name}: {place}")
        elif (one := content_of(old[name])) != (other := content_of(new[name])):
            lines.append(f"{name}: {place_of(one, other)}")
    return len(old), lines


@contextmanager
def code_of(commit: str, folder: Path) -> Iterator[Path]:
    """The code of a commit in a worktree, for the length of a with-block."""
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(folder), commit], check=True)
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def main(arguments: list[str]) -> int:
    """Run, compare, print."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("base", nargs="?", help="commit to compare with")
    parser.add_argument("--before", type=Path, help="folder of an earlier --keep, to compare with its before/")
    parser.add_argument("--figures", action="store_true", help="ignore manifests, keys and prose")
    parser.add_argument("--keep", type=Path, help="leave what was written in this folder, as before/ and after/")
    options = parser.parse_args(arguments)
    if bool(options.base) == bool(options.before):
        parser.error("name a commit, or a folder with --before")
    with TemporaryDirectory(prefix="golden-") as name, model_stub() as endpoint:
        folder = Path(name)
        words = {"ENDPOINT": endpoint, "LINKS": LINKS}
        try:
            if options.base:
                with code_of(options.base, folder / "code") as code:
                    run_chain(code, folder, folder / "before", words)
            run_chain(ROOT, folder, folder / "after", words)
        except BrokenChain as error:
            print(error, file=sys.stderr)
            return 1
        finally:
            for side in ("before", "after"):
                if options.keep and (folder / side).is_dir():
                    shutil.copytree(folder / side, options.keep / side, dirs_exist_ok=True)
        count, lines = compare((options.before or folder) / "before", folder / "after", options.figures)
    print("\n".join(lines) or f"{count} files and what {len(CHAIN.splitlines())} commands printed are the same")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
