"""Notes on a model's figures: human accuracy, leakage, contamination."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.lineage import AS_PUBLISHED, chosen_on_test, foreign_notes, lineage, other_datasets
from ctxr.datasets.readers.imagecode import HUMANS, is_release
from ctxr.datasets.rounds import label_notes
from ctxr.datasets.splits import alert_of_leaks
from ctxr.engine.report import Table, share_with_interval
from ctxr.errors import DataError, plural
from ctxr.metrics.compare import Interval
from ctxr.metrics.ranking import ALL_OF_SET
from ctxr.models.hub import DEFAULT_ENCODER
from ctxr.models.leakage import leakage_table
from ctxr.problems.evaluation import EvalRequest, Evaluation, ScoredRun, SplitExamples, SplitT
from ctxr.problems.figures import People, mark_changed
from ctxr.problems.runs import NAMED, EvaluatedRun
from ctxr.store.artifacts import Artifact, picked_with
from ctxr.store.kinds import MODEL
from ctxr.store.paths import without_folder
from ctxr.store.tables import UNREADABLE

IN_MIXTURES = "Mantis-Instruct holds the train split of ImageCoDe, so multimodal models that were tuned on it are not zero-shot here"
"""A contamination of the release that is known (reference, section b)."""


ALONE = "nothing was compared: --compare tests every two runs, and there is one alone"


def first_notes(evaluation: Evaluation[SplitT, ScoredRun]) -> list[str]:
    """The dataset's own notes, and a sentence where there is nothing to compare."""
    single = evaluation.options.compare and len(evaluation.runs) == 1
    return [*evaluation.request.dataset.notes, *([ALONE] if single else [])]


def add_cautions(evaluation: Evaluation[SplitT, ScoredRun], more: Sequence[str] = ()) -> None:
    """Add what keeps figures from being taken at their word to the findings: marks in tables, `more` notes, leaks, contamination.

    A dagger marks runs that learned from other judgments than those of the dataset: from it before a change, or from another. Below
    every table stands which active rounds a toy judged, which have no licence, and how many unsure pairs leave the rankings.
    """
    request, splits, findings = evaluation.request, evaluation.splits, evaluation.findings
    changed = {
        run.name
        for run in evaluation.runs
        if run.artifact is not None
        for ancestor in lineage(run.artifact)
        if isinstance(ancestor, Artifact) and not _learned_nothing(ancestor)
        if other_datasets(ancestor, request.origin)
    }
    places = (request.dataset.root, evaluation.options.judgments)
    folders = dict.fromkeys(place.parent if place.is_file() else place for place in places if place is not None)
    said = [note for folder in folders for note in label_notes(folder)]
    said += [
        f"{split}: judges are unsure of {plural(count, 'pair')}, left out of the rankings"
        for split, count in evaluation.unsure
    ]
    for name, table in findings.tables.items():
        marked = mark_changed(table, changed)
        findings.tables[name] = replace(marked, note="; ".join([*filter(None, [marked.note]), *said]))
    findings.notes += [*said, *more]
    alert_of_leaks(request.dataset, evaluation.progress)
    leaks = leakage_table(request.dataset, None, evaluation.progress)
    if isinstance(leaks, str):
        findings.notes.append(f"{leaks}: leaks between splits were not checked")
    else:
        evaluated = {split.name for split in splits}
        findings.notes += [
            f"{pair.replace(' – ', ' and ')} share {shared} of {of} by {what}: ctxr stats names some"
            for what, pair, shared, of, _ in leaks.rows
            if shared and evaluated & {*pair.split(" – ")}
        ]
    findings.notes += contamination_notes(request, splits, evaluation.runs)


def crowd_figures(dataset: Dataset) -> dict[str, People]:
    """What people reach, by part and basis: the own crowd, or as published. Raises DataError for a damaged file."""
    if is_release(dataset):
        return {of: People(None, {"accuracy": Interval(right)}, Interval(alpha)) for of, right, alpha, _ in HUMANS}
    file = None if dataset.root is None else dataset.root / "figures.json"
    if file is None or not file.is_file():
        return {}
    people = dict[str, People]()
    try:
        figures = msgspec.json.decode(file.read_bytes())
        nominal = [row for row in figures["agreement"] if (row["level"], row["on"]) == ("nominal", "image ids")]
        alphas = {(row["kind"], row["basis"]): _ends(row) for row in nominal}
        for row in [row for row in figures["accuracy"] if row["value"] is not None]:
            of, over = (row["kind"], row["basis"]), "" if row["crowd_low"] is None else "crowd_"
            reached = {"accuracy": _ends(row, over), ALL_OF_SET: _ends(row["sets"])}
            people[", ".join(of)] = People(row["votes"], reached, alphas.get(of, Interval(None)))
    except (KeyError, TypeError, AttributeError, *UNREADABLE) as error:
        raise DataError(f"{file} is damaged: {error}", hint="run ctxr aggregate again") from error
    return people


def _ends(row: Mapping[str, Any], over: str = "") -> Interval:
    ends = {end: row.get(f"{over}{end}") for end in ("low", "high")}
    return msgspec.convert({"value": row["value"], **ends}, Interval)


def crowd_table(dataset: Dataset, people: Mapping[str, People]) -> Table | None:
    """Human accuracy and agreement, where they are known."""
    if is_release(dataset):
        note = (
            "published (ImageCoDe, section 3.3 and Table 3), on votes for descriptions that were kept, which flatters"
        )
        shown = tuple((of, f"{100 * right:.1f}", *alphas) for of, right, *alphas in HUMANS)
        return Table("People", ("of", "accuracy %", "alpha, nominal", "alpha, interval"), shown, note)
    rows = tuple(
        (of, one.votes, *(share_with_interval(vars(share)) for share in one.reached.values()), one.alpha.value)
        for of, one in people.items()
    )
    note = "all descriptions that were voted on, also those that were dropped; alpha: nominal, on image ids; "
    note += f"{ALL_OF_SET}: share of sets in which the first vote on every description is right"
    heads = ("of", "votes", "accuracy %", f"{ALL_OF_SET} %", "alpha, nominal")
    return Table("People", heads, rows, note) if rows else None


def contamination_notes(
    request: EvalRequest, splits: Sequence[SplitExamples], runs: Sequence[EvaluatedRun]
) -> list[str]:
    """A sentence for each reason why a run may have seen what it is evaluated on."""
    names, notes = {split.name for split in splits}, list[str]()
    trained = {run.name: run.artifact for run in runs if run.artifact and run.artifact.manifest.verb == "train"}
    for artifact in trained.values():
        notes += foreign_notes(artifact, request.origin)
    learned = [name for name, artifact in trained.items() if not _learned_nothing(artifact)]
    tested = [name for name, artifact in trained.items() if chosen_on_test(artifact)]
    if learned and "train" in names:
        notes.append(f"figures on train show the fit of {', '.join(learned)}, not quality")
    if tested and "test" in names:
        notes.append(f"test chose the epoch of {', '.join(tested)} (judged_on_test): its figures on test are too high")
    if (others := [name for name in learned if name not in tested]) and "valid" in names:
        figures = "its figures there are" if len(others) == 1 else "their figures there are"
        notes.append(f"valid chose the epoch of {', '.join(others)}: {figures} slightly high; those on test are not")
    if outside := [run.name for run in runs if run.name not in trained]:
        source = f"what {', '.join(outside)} was trained on, and whether these sets were in it"
        notes.append(f"{source}, is not known here")
        if is_release(request.dataset):
            notes.append(IN_MIXTURES)
    return notes


def picker_notes(request: EvalRequest, runs: Sequence[EvaluatedRun]) -> Iterator[str]:
    """A sentence where no run has an encoder with other weights than the one that picked the sets: they are hard for that one by design."""
    if picker := picked_with(request.path).get("encoder"):
        encoders = [run.artifact.manifest.models.get(NAMED, {}).get("encoder", "") for run in runs if run.artifact]
        encoders += [run.name for run in runs if run.origin.kind == MODEL]
        # files of scores do not name their model
        if runs and {_weights(name) for name in encoders if name} <= {_weights(picker["name"])}:
            other = (
                DEFAULT_ENCODER if _weights(picker["name"]) != _weights(DEFAULT_ENCODER) else "ViT-B-16-SigLIP:webli"
            )
            yield (
                f"{without_folder(picker['name'])} picked the sets, which are hard for it by design, and no run here is known to look "
                f"with other weights: add {other} to the runs to see how hard they are for another encoder"
            )


def _weights(name: str) -> str:
    """What an encoder was trained on, as its name says it: what follows the architecture."""
    return without_folder(name).rpartition(":")[2]


def _learned_nothing(artifact: Artifact) -> bool:
    return artifact.manifest.config.get("variant") in AS_PUBLISHED and not any(
        parent.kind == artifact.manifest.kind for parent in artifact.manifest.parents
    )
