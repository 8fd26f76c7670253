"""The crowd of the demo: simulated workers at the real pages of `ctxr serve`, and what aggregation finds next to what they are."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ctxr.pipelines.talk import Talk

if TYPE_CHECKING:
    from ctxr.data.world import World
    from ctxr.pipelines.aggregate import AggregateReport
    from ctxr.pipelines.aggregating.people import Worker
    from ctxr.pipelines.rehearsal import Rehearsed

TARGETS = 2
"""Targets of each set; three, as published, would take half as long again and show nothing more."""

BAD = ("spammer", "position-biased")
"""Kinds of simulated workers that must be found."""

GOOD = ("careful",)
"""Kinds that must not be accused; hasty ones may be either."""


@dataclass(frozen=True)
class Estimate:
    """A figure next to what the simulation put there: mean and (low, high) of 95 % of its draws."""

    name: str
    found: float | None
    mean: float
    low: float
    high: float

    @property
    def fits(self) -> bool:
        """Whether the figure lies where the simulation put it."""
        return self.found is not None and self.low <= self.found <= self.high


@dataclass(frozen=True)
class CrowdReport:
    """What the crowd of the demo did, and what was found out about it.

    Attributes:
        answers: given over HTTP. found, missed, accused: bad workers that were found or not, good ones that were accused.
    """

    answers: int
    workers: int
    kept: int
    dropped: int
    found: int
    missed: int
    accused: int
    estimates: tuple[Estimate, ...]
    dataset: Path


def run_crowd(work: Path, sets: Path, world: "World", seed: int, talk: Talk) -> CrowdReport:
    """Export, serve, work, aggregate; a demo that is run again only aggregates."""
    from ctxr.data.artifacts import open_artifact
    from ctxr.data.tables import read_table
    from ctxr.pipelines import aggregate, export_tasks
    from ctxr.pipelines.aggregating.people import Worker

    fingerprint = open_artifact(sets).sha256
    done = _remembered(work, fingerprint)
    if done is None:
        for name in ("tasks", "crowd", "judgments", "dataset"):  # of other sets, by this demo
            shutil.rmtree(work / name, ignore_errors=True)
        asked = export_tasks.ExportTasks(
            task="describe",
            workdir=work,
            targets=TARGETS,
            # in so small a world every set is worth three votes, and validation alone would keep nobody busy
            train_needed=2,
            train_most=3,
            disjoint="none",
            attention_every=10,
            seed=seed,
        )
        export_tasks.run(asked, talk)
        done = _rehearsed(work, sets, world, seed, fingerprint, talk)
    report = aggregate.run(aggregate.Aggregate(workdir=work, resamples=500), talk)
    people = read_table(report.dataset / "workers.jsonl", Worker)
    return _compared(done, report, {row.worker: row for row in people})


def _rehearsed(work: Path, sets: Path, world: "World", seed: int, fingerprint: str, talk: Talk) -> "Rehearsed":
    from dataclasses import asdict

    import msgspec

    from ctxr.data.atomic import write_bytes
    from ctxr.pipelines.rehearsal import rehearse

    done = rehearse(work, sets, world, seed, talk)
    write_bytes(work / "rehearsal.json", msgspec.json.encode({"sets": fingerprint, "done": asdict(done)}))
    return done


def _remembered(work: Path, fingerprint: str) -> "Rehearsed | None":
    """What an earlier demo did with the same sets."""
    import msgspec

    from ctxr.pipelines.rehearsal import Rehearsed

    try:
        told = msgspec.json.decode((work / "rehearsal.json").read_bytes())
        return msgspec.convert(told["done"], Rehearsed) if told["sets"] == fingerprint else None
    except (OSError, msgspec.MsgspecError, KeyError, TypeError):
        return None


def _compared(done: "Rehearsed", report: "AggregateReport", people: "Mapping[str, Worker]") -> CrowdReport:
    import msgspec

    figures = msgspec.json.decode((report.dataset / "figures.json").read_bytes())
    accuracy = next((row["value"] for row in figures["accuracy"] if row["basis"] == "all votes"), None)
    estimates = [Estimate("human accuracy", accuracy, *done.accuracy)]
    for kind, where in done.alpha.items():
        value = next(
            row["value"]
            for row in figures["agreement"]
            if (row["kind"], row["basis"], row["level"], row["on"]) == (kind, "all votes", "nominal", "image ids")
        )
        estimates.append(Estimate(f"alpha, {kind}", value, *where))
    stopped = {name for name, row in people.items() if row.blocked or row.suggestion == "block"}
    kinds = {name: kind for name, kind in done.profiles.items() if name in people}
    bad = {name for name, kind in kinds.items() if kind in BAD}
    good = {name for name, kind in kinds.items() if kind in GOOD}
    return CrowdReport(
        answers=done.answers,
        workers=len(people),
        kept=report.counts["queries"],
        dropped=sum(report.counts["dropped"].values()),
        found=len(bad & stopped),
        missed=len(bad - stopped),
        accused=len(good & stopped),
        estimates=tuple(estimates),
        dataset=report.dataset,
    )
