"""Evaluations that lie in a project: what runs did on the queries of one dataset."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctxr.data.artifacts import MANIFEST, Artifact, Parent, open_artifact
from ctxr.data.tables import read_table
from ctxr.errors import DataError
from ctxr.pipelines.evaluating.results import FIGURES, KIND, PER_QUERY, RESULTS, QueryResult


@dataclass(frozen=True)
class EvaluationRows:
    """What all evaluations of one dataset say, each run once.

    Attributes:
        names: folders of the evaluations. runs: in the order of the tables. rows: by run and query.
        figures, differences: rows of `figures.json`. people: a table of people's accuracy, None where nobody is known.
        tables: those of galleries, as they were printed. artifacts: the evaluations that `names` names.
        notes: what one should know first. dataset: SHA-256 of what was evaluated on. origins: what the runs are, by content.
    """

    names: tuple[str, ...]
    runs: tuple[str, ...]
    rows: tuple[QueryResult, ...]
    figures: tuple[dict[str, Any], ...]
    differences: tuple[dict[str, Any], ...]
    people: dict[str, Any] | None
    notes: tuple[str, ...]
    dataset: str = ""
    origins: tuple[Parent, ...] = ()
    tables: tuple[dict[str, Any], ...] = ()
    artifacts: tuple[Artifact, ...] = ()

    @property
    def scorers(self) -> tuple[str, ...]:
        """Names in `rows`: the runs, or their seeds where there are several."""
        met = dict.fromkeys(row.run for row in self.rows)
        return tuple(name for run in self.runs for name in met if _is_of(name, run))


def find_scored(project: Path, about: str | None = "") -> EvaluationRows | None:
    """The evaluations in `results` of a project; None where there is none.

    Of several datasets, `about` (SHA-256, see `inputs.origin_of`) counts, else the one that lies in the project, else the one
    with most rows; `about` is None where no dataset is at hand, which is then not noted again. Of a run that was evaluated
    twice, the evaluation with most runs counts. Raises DataError for a damaged table.
    """
    artifacts = [open_artifact(file.parent) for file in sorted((project / RESULTS).glob(f"*/{MANIFEST}"))]
    artifacts = [one for one in artifacts if one.manifest.kind == KIND]
    if not artifacts:
        return None
    here = {open_artifact(file.parent).sha256 for file in sorted(project.glob(f"*/{MANIFEST}"))}
    by_dataset: dict[str, list[Artifact]] = {}
    for one in artifacts:
        by_dataset.setdefault(_dataset(one), []).append(one)
    chosen = max(by_dataset, key=lambda sha256: (sha256 == about, sha256 in here, _rows(by_dataset[sha256]), sha256))
    notes = []
    if len(by_dataset) > 1:
        others = sum(len(found) for sha256, found in by_dataset.items() if sha256 != chosen)
        notes.append(f"{others} evaluations on other datasets are in {RESULTS}/ and are not shown")
    if about and chosen != about:
        notes.append(
            "these results are of another dataset than the sets above, or of what it was before it was changed"
        )
    elif about is not None and chosen not in {about, *here}:
        notes.append("the dataset that was evaluated is not in this project, or was made anew since")
    return _merge(sorted(by_dataset[chosen], key=lambda one: (-_runs(one), one.path.name)), notes)


def _merge(artifacts: list[Artifact], notes: list[str]) -> EvaluationRows:
    rows: list[QueryResult] = []
    figures: list[dict[str, Any]] = []
    differences: list[dict[str, Any]] = []
    people: dict[str, Any] | None = None
    runs: list[str] = []
    shown: list[Artifact] = []
    tables: list[dict[str, Any]] = []
    for one in artifacts:
        if edited := one.changed_files():
            notes.append(f"{RESULTS}/{one.path.name}/{edited[0]} was changed since it was written")
        told = _figures(one.path / FIGURES)
        fresh = list(dict.fromkeys(row["run"] for row in told["figures"] if row["run"] not in runs))
        people = people or told.get("people")
        if not fresh:
            continue
        shown.append(one)
        tables += told.get("tables", [])
        runs += fresh
        figures += [row for row in told["figures"] if row["run"] in fresh]
        differences += [row for row in told["differences"] if row["run"] in fresh]
        rows += [
            row for row in read_table(one.path / PER_QUERY, QueryResult) if any(_is_of(row.run, run) for run in fresh)
        ]
    origins = {origin.name: origin for one in reversed(artifacts) for origin in one.manifest.parents}
    return EvaluationRows(
        tuple(one.path.name for one in shown), tuple(runs), tuple(rows), tuple(figures), tuple(differences), people, tuple(notes),
        _dataset(artifacts[0]), tuple(origins[run] for run in runs if run in origins), tuple(tables),
        tuple(shown),
    )  # fmt: skip


def _is_of(scorer: str, run: str) -> bool:
    """Whether a scorer is a run, or one of its seeds."""
    return scorer == run or scorer.rpartition("/")[0] == run


def _figures(file: Path) -> dict[str, Any]:
    try:
        told: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        wanted = ("side", "run", "view", "part", "measure", "value", "low", "high", "queries", "clusters")
        if not all(name in row for row in told["figures"] for name in wanted):
            raise KeyError(wanted)
        told.setdefault("differences", [])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{file} is damaged", hint="run ctxr eval again") from error
    return told


def _dataset(artifact: Artifact) -> str:
    return next((one.sha256 for one in artifact.manifest.parents if one.name == "dataset"), "")


def _runs(artifact: Artifact) -> int:
    runs = artifact.manifest.config.get("runs")
    return len(runs) if isinstance(runs, list) else 0


def _rows(artifacts: list[Artifact]) -> int:
    counts = [one.manifest.counts.get("rows") for one in artifacts]
    return sum(count for count in counts if isinstance(count, int))
