"""`ctxr audit`: shortcuts that find the target without reading the description; each must stay at chance."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ctxr.errors import UsageError
from ctxr.pipelines.inputs import open_dataset
from ctxr.pipelines.result_tables import Table
from ctxr.pipelines.talk import Silent, Talk

if TYPE_CHECKING:
    from ctxr.data.dataset import Dataset
    from ctxr.metrics.shortcuts import Trial, Verdict


@dataclass(frozen=True)
class Audit:
    """Configuration of `ctxr audit`; a field's text is its help."""

    dataset: Path | None = None
    """Artifact, published release (folder or file) or COCO captions; default: the latest finished one in the workdir."""
    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""
    worker: str = "gold"
    """Whose judgments name the targets."""
    skip_pictures: bool = False
    """Do not open pictures: sharpness and file size are left out."""


@dataclass(frozen=True)
class AuditReport:
    """What the shortcuts reached.

    Attributes:
        verdicts: by rule and part of the queries; all of them share one correction.
        missing: rules that could not be tried and why, one sentence each.
        learnt: where the commonest position was learnt.
    """

    dataset: str
    queries: int
    verdicts: "tuple[Verdict, ...]"
    missing: tuple[str, ...]
    notes: tuple[str, ...] = ()
    learnt: str = ""


def run(config: Audit, talk: Talk | None = None) -> AuditReport:
    """Every shortcut that the dataset allows, on all queries and, where there are both, on video and photos apart.

    Raises UsageError for a worker who named no target although others did, DataError, UnfinishedError as `read_dataset` does.
    """
    talk = talk or Silent()
    from ctxr.metrics.shortcuts import corrected, judge, learns_on_train
    from ctxr.pipelines.audit_rules import SEVERAL_CHOICES, asked_of, rules

    dataset = open_dataset(config.dataset, config.workdir, talk)
    _check_worker(dataset, config.worker)
    asked = asked_of(dataset, config.worker)
    if not asked:
        return AuditReport(dataset.name, 0, (), ("no target is known: nothing can be tried",), dataset.notes)
    verdicts = []
    missing: list[str] = []
    for rule in rules(dataset, asked, config.skip_pictures, talk):
        if isinstance(rule, str):
            missing.append(rule)
            continue
        name, credits = rule
        tried = [query for query, credit in zip(asked, credits.tolist(), strict=True) if not math.isnan(credit)]
        # a rule for videos alone would say the same twice, and be corrected for it twice
        for part in _parts(asked) if len(_parts(tried)) == len(_parts(asked)) else sorted({one.kind for one in tried}):
            rows = [row for row, query in enumerate(asked) if part in ("all", query.kind)]
            verdict = judge(name, part, [asked[row] for row in rows], credits[rows], name not in SEVERAL_CHOICES)
            if verdict is not None:
                verdicts.append(verdict)
    learnt = "learnt on train" if learns_on_train(asked) else "learnt on the sets before, in an order fixed by hash"
    return AuditReport(dataset.name, len(asked), tuple(corrected(verdicts)), tuple(missing), dataset.notes, learnt)


def as_table(report: AuditReport) -> Table:
    """The verdicts as a table for people."""
    rows = tuple(
        (
            one.rule,
            one.part,
            one.queries,
            f"{one.accuracy:.3f} ({one.low:.3f}–{one.high:.3f})",
            one.chance,
            one.corrected,
            "above chance" if one.flagged else "",
        )
        for one in report.verdicts
    )
    note = (
        f"{report.queries} descriptions with a target; n: different targets; each set is one trial: in brackets an interval "
        f"of at least 95 % of each by itself; p: at most so often by luck, Holm-corrected over {len(report.verdicts)} "
        f"tests, flagged below 0.025; positions {report.learnt}"
    )
    heads = ("rule", "on", "n", "accuracy", "chance", "p", "")
    return Table("Shortcuts", heads, rows, note)


def _parts(asked: "list[Trial]") -> tuple[str, ...]:
    kinds = sorted({query.kind for query in asked}, reverse=True)
    return ("all", *kinds) if len(kinds) > 1 else ("all",)


def _check_worker(dataset: "Dataset", worker: str) -> None:
    named = sorted({
        row.worker
        for row in dataset.judgments
        if row.value > 0 and dataset.queries[row.query].labels is None
    })  # fmt: skip
    if named and worker not in named:
        raise UsageError(
            f"no target is named by {worker!r}", hint=f"--worker {named[0]}   (known: {', '.join(named[:5])})"
        )
