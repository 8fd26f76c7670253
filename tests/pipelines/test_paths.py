"""No path decides a result: the same inputs by absolute paths, by relative ones from another folder, and as copies under other names are
up to date."""

import json
import os
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ctxr.cli.app import app
from ctxr.engine.history import HISTORY
from ctxr.models.encoders import TINY_FOLDER
from ctxr.problems.recipes import FOLDER
from ctxr.store.records import Image, Query
from ctxr.store.tables import read_table
from ctxr.synthetic.benchmark import WorldBenchmark, write_benchmark
from ctxr.synthetic.captions import WorldCaptions, write_captions
from tests.models.bert_folder import make_bert

COMMANDS = {
    "build-sets": "build-sets @/captions/images --splits @/splits.csv --encoder local-dir:@/encoder --set-size 4 -o @/made/sets",
    "filter": "filter --input @/made/sets --min-size 16 -o @/made/filtered",
    "plan": "plan --input @/made/filtered -o @/made/plan",
    "export": "export --to croissant --input @/made/filtered --licences @/licences.csv -o @/made/croissant",
    "recipe": "export --to recipe --input @/made/filtered -o @/made/recipe",
    "rebuild": "rebuild @/made/recipe --videos @/captions/images -o @/made/rebuilt",
    "build-documents": "build-documents coco --dataset @/captions --train 1 --valid 0 --test 0 -o @/made/documents",
    "pairs": "pairs @/captions -o @/made/pairs",
    "export-tasks": "export-tasks describe --input @/made/filtered --protocol @/protocol.toml -o @/made/tasks",
    "regions": "regions @/benchmark --extractor grid:local-dir:@/encoder",
    "train": "train --recipe @/clip.toml --dataset @/benchmark",
    "eval": "eval @/work/runs/clip/scores.jsonl --dataset @/benchmark --encoder local-dir:@/encoder --judgments @/said.jsonl "
    "--resamples 20 -o @/made/results",
    "train over a folder": "train --recipe @/clip.toml --dataset @/benchmark --name local --set encoder=local-dir:@/encoder",
    "train a head": "train --recipe @/head.toml --dataset @/benchmark --set encoder=local-dir:@/encoder --set epochs=1",
    "train a classifier": "train --recipe entailment-tiny --dataset @/made/pairs --name bert --set text=bert:@/bert --set image= "
    "--set epochs=1",
    "train from cells": "train --recipe entailment-tiny --dataset @/made/pairs --name cells --set text= "
    "--set image=aligned:local-dir:@/encoder --set epochs=1",
    "eval a folder": "eval local local-dir:@/encoder --dataset @/benchmark --resamples 20 -o @/made/compared",
    "revise-labels": "revise-labels @/captions --entail --retriever ctxr-tiny --judge file:@/judged.jsonl --sample 4 --top-k 4 "
    "-o @/made/revised",
}
"""A command for each verb that writes an artifact from paths, but those that need answers of people or of an endpoint; @ is the folder
of all inputs."""

COPIED = ("encoder", "bert", "protocol.toml", "splits.csv", "licences.csv", "judged.jsonl", "said.jsonl")
"""Inputs that are known by content."""

OPENED = {
    "scorer": "eval local head --dataset @/benchmark --split train --resamples 20 -o @/made/train",
    "classifiers": "eval bert cells --dataset @/made/pairs --resamples 20 -o @/made/classified",
}
"""What opens the trained models again, with what their recipes named."""


TABLES: dict[str, type[Image | Query]] = {"images": Image, "queries": Query}


def run(root: str, line: str) -> list[bool]:
    """Which artifacts of the command were up to date."""
    words = [word.replace("@", root) for word in shlex.split(line)]
    result = CliRunner().invoke(app, [*words, "-w", f"{root}/work"])
    assert result.exit_code == 0, result.stderr
    last = json.loads((Path(root) / "work" / HISTORY).read_text().splitlines()[-1])
    return [artifact["up_to_date"] for artifact in last["artifacts"]]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("root")
    write_captions(
        WorldCaptions(
            root / "captions", train=24, valid=0, test=6, pair_train=6, pair_valid=0, least=1, most=2, side=32, workers=1
        )
    )  # fmt: skip
    write_benchmark(WorldBenchmark(root / "benchmark", train=2, valid=1, test=2, targets=10, side=32, workers=1))
    shutil.copytree(TINY_FOLDER, root / "encoder")
    (root / "splits.csv").write_text("group,split\ntrain,train\n")
    (root / "protocol.toml").write_text('targets = 1\ndisjoint = "none"\n')
    (root / "licences.csv").write_text("source,licence,attribution,url\ntrain,CC0,,\n")
    shutil.copy(FOLDER / "clip-zero-shot.toml", root / "clip.toml")
    (root / "clip.toml").write_text((root / "clip.toml").read_text().replace("ViT-B-16:openai", "ctxr-tiny"))
    recipe = (FOLDER / "clip-module.toml").read_text().replace("ViT-B-16:openai", "ctxr-tiny")
    (root / "head.toml").write_text("".join(line for line in recipe.splitlines(True) if not line.startswith("start =")))
    make_bert(root / "bert")
    images, queries = (read_table(root / "captions" / f"{name}.jsonl", kind) for name, kind in TABLES.items())
    pairs = [{"image": image.id, "caption": query.id, "p": 0.9} for image in images for query in queries]
    (root / "judged.jsonl").write_text("".join(f"{json.dumps(pair)}\n" for pair in pairs))
    (root / "said.jsonl").touch()
    for name in COPIED:
        (shutil.copytree if (root / name).is_dir() else shutil.copy)(root / name, root / f"copy-of-{name}")
    (root / "elsewhere").mkdir()
    (root / "work").mkdir()
    return root


def test_a_path_decides_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, line in COMMANDS.items():
        monkeypatch.chdir(root)
        assert run(str(root), line) == [False], name
        monkeypatch.chdir(root / "elsewhere")
        assert run(os.pardir, line) == [True], name
        for copied in COPIED:
            line = line.replace(f"@/{copied}", f"@/copy-of-{copied}")
        named = name == "eval a folder"  # its tables call the model by the name of its folder
        assert run(os.pardir, line) == [not named], name
    for name, line in OPENED.items():
        assert run(os.pardir, line) == [False], name
    for folder, name in (("work", "manifest.json"), ("work", "seed0/config.json"), ("made", "manifest.json")):
        for file in (root / folder).rglob(name):
            assert str(root) not in file.read_text(), file
