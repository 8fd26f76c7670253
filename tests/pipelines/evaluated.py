"""Scores and datasets for the tests of `ctxr eval`: small enough to be counted by hand."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.open import read_dataset
from ctxr.pipelines.modelling.config import Eval, EvalReport
from ctxr.pipelines.modelling.eval import run
from ctxr.store.artifacts import Content, Parent, finish, open_artifact
from ctxr.store.records import Image, ImageSet, Judgment, Query, Record, Split, SplitName, Text
from ctxr.store.tables import read_table, write_table
from tests.releases import annotation_yaml, write_release

FILM, STREET, PHOTOS = (
    "MSR-VTT-videoTest_video7-shot1_0",
    "MSR-VTT-videoTest_video9-shot0_0",
    "open-images-7_ab",
)
VALID = {
    FILM: {"3": "No face at all.", "4": "Her eyes begin to close, slowly."},
    STREET: {"0": "A car."},
    PHOTOS: {"9": "Two dogs, one of them blue."},
}
TEST = {"YouCook-video2-shot1_1": ["The last frame.", "A knife."], "MSR-VTT-videoTest_video7-shot2_1": ["A hand."]}
"""Not in the order of the alphabet."""

WRITERS = {
    FILM: {"3": "train_worker", "4": "unseen_worker"},
    STREET: {"0": "unseen_worker"},
    PHOTOS: {"9": "unseen_worker"},
}

Value = Callable[[str, int], float]
"""Score of a candidate by query and position."""


def release(folder: Path) -> Path:
    """A release with two sets of video and one of photos on valid, writers, phenomena, and hidden targets on test."""
    write_release(folder, valid=VALID, test=TEST)
    (folder / "annotator_split_valid.json").write_text(json.dumps(WRITERS))
    rows = [(FILM, 3, "neg,v"), (FILM, 4, "t,con"), (PHOTOS, 9, "q,col")]
    (folder / "manual_annotation_valid.yaml").write_text(annotation_yaml(rows))
    return folder


def write_scores(
    file: Path, dataset: Path, value: Value, sides: tuple[str, ...] = ("valid", "test"), scorer: str = ""
) -> Path:
    """A line for each candidate of each query for an image on these sides, side after side."""
    read = read_dataset(dataset)
    sets = {one.id: one for one in read.sets}
    sided = [(read.split_of(sets[query.image_set]), query) for query in read.queries.values() if query.labels is None]
    lines = []
    for side in sides:
        for query in (query for of, query in sided if of == side):
            for place, candidate in enumerate(sets[query.image_set].images):
                row: dict[str, object] = {"query": query.id, "candidate": candidate, "value": value(query.id, place)}
                lines.append(json.dumps(row | ({"scorer": scorer} if scorer else {})))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def target_of(dataset: Dataset) -> dict[str, int]:
    """Position of each known target, by query."""
    return {query.id: place for query, _, place in dataset.targets()}


def right_on(dataset: Path, right: Callable[[str], bool]) -> Value:
    """Scores of a model that finds the target where `right` says so, and the image after it elsewhere."""
    targets = target_of(read_dataset(dataset))

    def value(query: str, place: int) -> float:
        target = targets.get(query, 2)
        wanted = target if right(query) else (target + 1) % 10
        return 1.0 if place == wanted else -0.1 * place

    return value


def at_random(seed: int) -> Value:
    """Scores without sense."""
    rng = np.random.default_rng(seed)
    return lambda query, place: float(rng.random())


def evaluate(dataset: Path, *runs: Path | str, **options: object) -> EvalReport:
    """`ctxr eval` with few draws, into the folder beside the dataset."""
    settings: dict[str, object] = {"resamples": 200, "permutations": 200, "tokenizer": "regex"}
    settings |= {"workdir": dataset.parent / "work"} | options
    return run(Eval(runs=tuple(map(str, runs)), dataset=dataset, **settings))  # type: ignore[arg-type]


def trec_eval(folder: Path, run: str, k: int) -> dict[str, float]:
    """MAP, P.k and ndcg_cut.k as trec_eval computes them: single precision, ties by the name that comes last, ranks not read."""
    right: dict[str, set[str]] = {}
    for line in (folder / "qrels.txt").read_text().splitlines():
        query, _, candidate, relevance = line.split()
        right.setdefault(query, set()).update([candidate] if int(relevance) > 0 else [])
    listed: dict[str, list[tuple[float, str]]] = {}
    for line in (folder / f"{run}.txt").read_text().splitlines():
        query, _, candidate, _, score, _ = line.split()
        listed.setdefault(query, []).append((float(np.float32(score)), candidate))
    sums = {"MAP": 0.0, f"P@{k}": 0.0, f"nDCG@{k}": 0.0}
    for query, wanted in right.items():
        names = [name for _, name in sorted(listed[query], key=lambda pair: (pair[0], pair[1].encode()), reverse=True)]
        found = [rank for rank, name in enumerate(names, 1) if name in wanted]
        sums["MAP"] += sum(number / rank for number, rank in enumerate(found, 1)) / len(wanted)
        sums[f"P@{k}"] += sum(rank <= k for rank in found) / k
        ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(k, len(wanted)) + 1))
        sums[f"nDCG@{k}"] += sum(1 / math.log2(rank + 1) for rank in found if rank <= k) / ideal
    return {name: total / len(right) for name, total in sums.items()}


def describe_sets(work: Path, each: int = 2, sides: tuple[SplitName, ...] = ("test",)) -> Path:
    """The artifact `dataset` of a project: `each` descriptions of every filtered set, some with phenomena; videos and albums
    are dealt to `sides` in turn."""
    folder, filtered = work / "dataset", work / "filtered"
    sets = read_table(filtered / "sets.jsonl", ImageSet)
    rows: dict[str, list[Record]] = {"sets": list(sets), "images": list(read_table(filtered / "images.jsonl", Image))}
    groups = sorted({one.group for one in sets})
    rows["splits"] = [Split(group, sides[place % len(sides)]) for place, group in enumerate(groups)]
    rows |= {"texts": [], "queries": [], "judgments": []}
    for number, one in enumerate(sets):
        for place in range(each):
            key, target = f"{one.id}/{place}", (number + place) % len(one.images)
            rows["texts"].append(
                Text(key, f"The one in which the {'hand' if place else 'cup'} of set {number} is gone.", "w")
            )
            tags = ("negation", "spatial")
            rows["queries"] += [Query(key, one.id, (key,)), Query(f"{key}/tags", one.id, (key,), tags)]
            rows["judgments"].append(Judgment(key, one.images[target], "gold", 1.0))
            found = {"negation": True, "spatial": number % 2 == 0}
            rows["judgments"] += [Judgment(f"{key}/tags", tag, "w", float(said)) for tag, said in found.items()]
    for table, content in rows.items():
        write_table(folder / f"{table}.jsonl", content)
    parents = [Parent("image_sets", "image_sets", open_artifact(filtered).sha256)]
    files = [f"{table}.jsonl" for table in rows]
    finish(folder, kind="dataset", verb="aggregate", config={}, parents=parents, content=Content(files, {}, {}))
    return folder


def evaluated_project(work: Path, runs: int = 2) -> Path:
    """A project whose described sets were scored by some runs, each better than the one before, and compared."""
    dataset = describe_sets(work)
    targets = target_of(read_dataset(dataset))
    files = []
    for run_number in range(runs):
        rng = np.random.default_rng(run_number)

        def value(query: str, place: int, rng: np.random.Generator = rng, skill: int = run_number) -> float:
            return float(rng.normal() + (0.5 + 1.5 * skill) * (place == targets[query]))

        name = ("plain", "with context", "with time", "more", "most")[run_number]
        files.append(write_scores(work / "scores" / f"{name}.jsonl", dataset, value, ("test",)))
    evaluate(dataset, *files, compare=True, workdir=work)
    return work
