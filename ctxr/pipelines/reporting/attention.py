"""What the candidates of a query attended to: the last layer of a trained head, for the queries that a page shows."""

from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np

from ctxr.data.artifacts import MANIFEST, Artifact, open_artifact
from ctxr.data.dataset import Dataset
from ctxr.data.hashing import sha256_file, sha256_of
from ctxr.errors import CtxrError
from ctxr.pipelines.evaluating.runs import RUNS
from ctxr.pipelines.reporting.scored import EvaluationRows
from ctxr.pipelines.scoring import RUN, Device, checkpoints, scorer_name, source_of, way_of, with_regions
from ctxr.pipelines.talk import Talk
from ctxr.pipelines.training.asked import EvalQuery, asked_of, by_side, contents_of, pictures_of
from ctxr.pipelines.training.caches import Array, cached
from ctxr.pipelines.training.encoded import PictureFiles

Attended = dict[tuple[str, str], list[list[int]]]
"""By scorer and query: percent 0..100 that each candidate looks at each, rows and columns in the order of the set."""


def attended(
    project: Path, scored: EvaluationRows, shown: Collection[str], talk: Talk, known: Dataset | None = None
) -> tuple[Attended, list[str]]:
    """Attention of the last layer, averaged over heads, of every trained head that was evaluated; and what is missing, in words.

    Runs that are files of scores or have no head, and runs that are gone or were trained again since, have none.
    Vectors and shares are kept in the project's cache. `shown` are ids of queries; `known` is the dataset that was evaluated,
    where it is at hand, else it is looked for in the project.
    """
    found, notes = Attended(), list[str]()
    runs = [run for run in _runs(project, scored) if any(_has_head(seed) for seed in checkpoints(run.path))]
    if not runs or not shown:
        return found, notes
    dataset = known or _dataset(project, scored.dataset)
    if dataset is None:
        return found, ["attention is not shown: the dataset that was evaluated is not in this project"]
    for run in runs:
        try:
            found |= _of_run(run, dataset, set(shown), project, talk)
        except CtxrError as error:
            notes.append(f"attention of {run.path.name} is not shown: {error.message}")
    return found, notes


def _runs(project: Path, scored: EvaluationRows) -> Iterator[Artifact]:
    """The trained runs that were evaluated, as they were then."""
    for origin in scored.origins:
        folder = project / RUNS / origin.name
        if origin.kind == RUN and (folder / MANIFEST).is_file():
            artifact = open_artifact(folder)
            if artifact.sha256 == origin.sha256:
                yield artifact


def _has_head(checkpoint: Path) -> bool:
    from ctxr.models.training.checkpoint import HEAD

    return (checkpoint / HEAD).is_file()


def _dataset(project: Path, sha256: str) -> Dataset | None:
    from ctxr.data.readers import read_dataset

    for file in sorted(project.glob(f"*/{MANIFEST}")):
        if sha256_file(file) == sha256:
            return read_dataset(file.parent)
    return None


def _of_run(run: Artifact, dataset: Dataset, shown: set[str], project: Path, talk: Talk) -> Attended:
    # whole sides, as they were asked for when the run was trained and evaluated: their vectors are in the cache
    sides = by_side(asked_of(dataset))
    seeds = checkpoints(run.path)
    encoder = str(run.manifest.config["encoder"])
    precision, regions = (
        str(run.manifest.config.get(key, other)) for key, other in (("precision", "auto"), ("regions", ""))
    )
    found = Attended()
    for asked in sides.values():
        wanted = [row for row, one in enumerate(asked) if one.query in shown]
        if wanted:
            files = pictures_of(dataset, asked)
            pictures = with_regions(PictureFiles(files, contents_of(dataset, files), project), encoder, regions, talk)
            for seed in seeds:
                name = scorer_name(run.path, seed, len(seeds))
                shares = _shares(seed, encoder, asked, wanted, pictures, Device(precision=precision), talk)
                for row, table in zip(wanted, shares, strict=True):
                    count = len(asked[row].images)
                    found[name, asked[row].query] = np.rint(100 * table[:count, :count]).astype(int).tolist()
    return found


def _shares(
    seed: Path,
    encoder: str,
    asked: list[EvalQuery],
    wanted: list[int],
    pictures: PictureFiles,
    machine: Device,
    talk: Talk,
) -> Array:
    """float32 [n, K, K] of the queries at `wanted`, by the checkpoint `seed`; computed once."""
    from ctxr.models.training.checkpoint import CONFIG, HEAD

    most = max(len(one.images) for one in asked)
    contents = [
        sha256_of([one.text, [pictures.contents[image] for image in one.images], one.ordered])
        for one in (asked[row] for row in wanted)
    ]
    made_by = {"attention": sha256_file(seed / HEAD), "config": sha256_file(seed / CONFIG), "most": most}

    def make(part: slice) -> Array:
        from ctxr.models.precision import choose_device
        from ctxr.models.training.scoring import attend_all

        device = choose_device(machine.device)
        way = way_of(seed, source_of(seed, encoder, talk), pictures, Device(device, machine.precision), talk)
        shares: Array = attend_all(way.ranker.eval(), way.prepare(asked), wanted[part], way.at_once, device).numpy()
        return shares

    with talk.progress("attention", len(wanted)) as task:
        arrays = cached(pictures.workdir, made_by, contents, make, task.advance)
    return np.concatenate(arrays)
