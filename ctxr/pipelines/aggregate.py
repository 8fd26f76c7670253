"""`ctxr aggregate`: answers become judgments that can be trusted, figures that can be quoted, and a dataset."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxr.errors import DataError, UsageError
from ctxr.pipelines.inputs import refuse_seed
from ctxr.pipelines.result_tables import Table
from ctxr.pipelines.talk import Silent, Talk

if TYPE_CHECKING:
    from ctxr.data.artifacts import Artifact, Parent
    from ctxr.pipelines.aggregating.figures import AccuracyRow, AgreementRow
    from ctxr.pipelines.aggregating.labels import LabelRow
    from ctxr.pipelines.aggregating.people import Worker
    from ctxr.pipelines.tasks_artifact import Answered

KIND = "dataset"

LABEL_RULES = ("majority", "dawid-skene")


@dataclass(frozen=True)
class Aggregate:
    """Configuration of `ctxr aggregate`; a field's text is its help."""

    input: Path | None = None
    """Artifact of judgments; default: `judgments` in the workdir, after importing what the local server has collected."""
    out: Path | None = None
    """Folder to write; default: `dataset` in the workdir."""
    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""
    database: str = ""
    """Database of `ctxr serve`, when it is not the file in the workdir."""
    rule: str = "paper"
    """What keeps a description: paper (1 of 1 right on train, 2 of 3 elsewhere, or as the tasks say), majority."""
    labels: str = "majority"
    """What decides tags and verdicts: majority (ties decide nothing), dawid-skene."""
    keep_blocked: bool = False
    """Count votes of blocked workers, and keep what they wrote."""
    disjoint: str = ""
    """What is certified: wholly, partly or none; default: what the tasks declared."""
    good: float = 0.8
    """Accuracy that is wanted of a worker."""
    poor: float = 0.5
    """Accuracy that is not borne."""
    resamples: int = 1000
    """Resamples of each interval."""
    seed: int = 0
    """Seed of the intervals."""

    def folder(self) -> Path:
        """Where the dataset is written."""
        return self.out or self.workdir / "dataset"

    def result_config(self) -> dict[str, Any]:
        """The part that decides the result."""
        names = ("rule", "labels", "keep_blocked", "disjoint", "good", "poor", "resamples", "seed")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class AggregateReport:
    """What the answers came to.

    Attributes:
        counts: rows of each table, and what was dropped by reason. violations: answers that break the rules of assignment.
    """

    dataset: Path
    read: Path
    up_to_date: bool
    counts: dict[str, Any]
    tables: dict[str, Table]
    holds: bool
    violations: tuple[str, ...]
    notes: tuple[str, ...]


def run(config: Aggregate, talk: Talk | None = None) -> AggregateReport:
    """Decide, measure, certify, and write the dataset; what was dropped is in `dropped.jsonl` with its votes.

    Raises UnfinishedError without judgments, DataError where nothing was answered or a picture is gone, UsageError for an
    unknown rule.
    """
    from ctxr.data.artifacts import Parent, finished, locked, open_artifact, refuse_strangers
    from ctxr.data.hashing import sha256_of
    from ctxr.pipelines.aggregating.audits import without_audits
    from ctxr.pipelines.collecting import collected
    from ctxr.pipelines.standing import blocked_workers
    from ctxr.pipelines.tasks_artifact import JUDGMENTS, read_judgments

    talk = talk or Silent()
    _check(config)
    source = config.input or collected(config.workdir, talk, config.database)
    every = read_judgments(source)
    if not every.answers:
        raise DataError(f"{source} holds no answers", hint="ctxr serve   (or ctxr import-answers FILE)")
    answered = without_audits(every, config.workdir)
    if not answered.answers:
        raise DataError(
            f"{source} holds answers about revised labels alone, and nothing to aggregate",
            hint="ctxr revise-labels --audit   says what they come to",
        )
    blocked = () if config.keep_blocked else blocked_workers(config.workdir, config.database)
    out = config.folder()
    parents = [Parent("judgments", JUDGMENTS, open_artifact(source).sha256), *_sets(answered.root)]
    settings = config.result_config() | {"blocked": sha256_of(sorted(blocked)) if blocked else ""}
    refuse_strangers(out)
    _refuse_others(out)
    figures = _Figures(answered, config, blocked)
    ready = finished(out, KIND, "aggregate", settings, parents)
    if ready is not None and not ready.changed_files():
        return _report(config, source, ready, figures, up_to_date=True)
    with locked(out):
        artifact = _write(out, answered, config, settings, parents, figures, talk)
    return _report(config, source, artifact, figures, up_to_date=False)


class _Figures:
    """Everything that is decided and measured, from the answers alone."""

    def __init__(self, answered: "Answered", config: Aggregate, blocked: Sequence[str]) -> None:
        import numpy as np

        from ctxr.pipelines.aggregating import acceptance, certificate, coefficients, figures, habits, labels, people
        from ctxr.pipelines.aggregating.ballots import picks_of

        self.picks = picks_of(answered)
        self.decisions = acceptance.decide(self.picks, config.rule, blocked)
        self.labels = labels.consensus(answered, config.labels, blocked)
        self.agreements: list[AgreementRow] = figures.agreements(
            self.picks, self.decisions, blocked, np.random.default_rng(config.seed), config.resamples
        )
        self.accuracies: list[AccuracyRow] = figures.accuracies(
            self.picks, self.decisions, blocked, np.random.default_rng(config.seed), config.resamples
        )
        self.coefficients = coefficients.coefficients(answered, self.picks)
        self.habits = habits.habits(self.picks, np.random.default_rng(config.seed))
        self.label_rows: list[LabelRow] = labels.agreements(answered)
        self.people: list[Worker] = people.people(answered, self.picks, blocked, config.good, config.poor)
        self.certificate = certificate.certificate(answered, config.disjoint or _declared(config.workdir), blocked)
        self.blocked = tuple(blocked)

    def tables(self) -> dict[str, Table]:
        """What is shown."""
        from ctxr.pipelines.aggregating import coefficients, figures, habits, labels, people

        shown = {}
        if self.picks:
            shown["kept"] = figures.kept_table(self.decisions, self.picks)
            shown["accuracy"] = figures.accuracy_table(self.accuracies)
            shown["agreement"] = figures.agreement_table(self.agreements)
            shown["coefficients"] = coefficients.table(self.coefficients)
            shown["habits"] = habits.table(self.habits)
        if self.label_rows:
            shown["labels"] = labels.table(self.label_rows)
        shown["workers"] = people.table(self.people)
        return shown


def _write(
    out: Path,
    answered: "Answered",
    config: Aggregate,
    settings: dict[str, Any],
    parents: Any,
    figures: _Figures,
    talk: Talk,
) -> "Artifact":
    from collections import Counter

    import msgspec

    from ctxr.data.artifacts import finish, take_manifest
    from ctxr.data.atomic import write_bytes
    from ctxr.data.tables import write_table
    from ctxr.pipelines.aggregating import dataset
    from ctxr.pipelines.aggregating.dropped import dropped_rows

    take_manifest(out)
    kept = dataset.kept_queries(answered, figures.decisions, figures.labels, figures.blocked)
    judgments = dataset.judgments_of(answered, kept, figures.decisions, figures.labels, config.rule)
    talks = [one for one in answered.dialogues if one.id in kept]
    names, counts = dataset.write_dataset(out, answered, kept, judgments, talks, talk)
    dropped = dropped_rows(answered, figures.decisions, kept)
    write_table(out / "dropped.jsonl", dropped)
    write_table(out / "workers.jsonl", figures.people)
    measured = {
        "accuracy": [row.record() for row in figures.accuracies],
        "agreement": [row.record() for row in figures.agreements],
        "coefficients": [row.record() for row in figures.coefficients],
        "habits": [row.record() for row in figures.habits],
        "labels": [row.record() for row in figures.label_rows],
    }
    write_bytes(out / "figures.json", msgspec.json.format(msgspec.json.encode(measured), indent=1) + b"\n")
    certified = msgspec.json.format(msgspec.json.encode(figures.certificate), indent=1)
    write_bytes(out / "certificate.json", certified + b"\n")
    return finish(
        out,
        kind=KIND,
        verb="aggregate",
        config=settings,
        parents=parents,
        counts=counts
        | {"dropped": dict(sorted(Counter(row.reason for row in dropped).items())), "workers": len(figures.people)},
        models={},
        files=[*names, "dropped.jsonl", "workers.jsonl", "figures.json", "certificate.json"],
    )


def _report(
    config: Aggregate, source: Path, artifact: "Artifact", figures: _Figures, up_to_date: bool
) -> AggregateReport:
    violations = tuple(figures.certificate["violations"])
    workers = figures.certificate["workers"]
    notes = []
    waiting = sum(artifact.manifest.counts["dropped"].get(reason, 0) for reason in ("not_asked", "too_few_votes"))
    if waiting:
        notes.append(f"{waiting} descriptions wait for retrievals: ctxr serve, then ctxr aggregate again")
    if figures.blocked:
        notes.append(f"votes of {len(figures.blocked)} blocked workers do not count (--keep-blocked counts them)")
    if workers["train"] and workers["eval"]:
        notes.append(
            f"{workers['both']} of {workers['train'] + workers['eval'] - workers['both']} workers are on train and on "
            f"validation or test; certificate.json says of each query whether its writer was seen in train"
        )
    return AggregateReport(
        dataset=artifact.path,
        read=source,
        up_to_date=up_to_date,
        counts=dict(artifact.manifest.counts),
        tables=figures.tables(),
        holds=not violations,
        violations=violations,
        notes=tuple(notes),
    )


def _sets(root: Path) -> "list[Parent]":
    """The image sets that were asked about, by which a later verb knows whether they are still the project's."""
    from ctxr.data.artifacts import MANIFEST, Parent, open_artifact

    if not (root / MANIFEST).is_file():
        return []  # a public release
    artifact = open_artifact(root)
    return [Parent("image_sets", artifact.manifest.kind, artifact.sha256)]


def _refuse_others(out: Path) -> None:
    """Raises UsageError where another command made the dataset that would be written over."""
    from ctxr.data.artifacts import MANIFEST, open_artifact

    verb = open_artifact(out).manifest.verb if (out / MANIFEST).is_file() else "aggregate"
    if verb != "aggregate":
        raise UsageError(f"{out} is an artifact that ctxr {verb} wrote", hint="choose another --out")


def _declared(workdir: Path) -> str:
    """What the project's tasks say of workers on both sides; the protocol's default where there are none any more."""
    from ctxr.annotation.protocol import Protocol
    from ctxr.data.artifacts import MANIFEST, open_artifact
    from ctxr.pipelines.tasks_artifact import TASKS

    said = {
        str(open_artifact(file.parent, TASKS).manifest.config["protocol"]["disjoint"])
        for file in (workdir / TASKS).glob(f"*/{MANIFEST}")
    }
    return next((name for name in ("wholly", "partly", "none") if name in said), Protocol.disjoint)


def _check(config: Aggregate) -> None:
    from ctxr.pipelines.aggregating.acceptance import RULES

    refuse_seed(config.seed)
    for name, value, known in (("rule", config.rule, RULES), ("labels", config.labels, LABEL_RULES)):
        if value not in known:
            raise UsageError(f"--{name} {value!r} is unknown", hint=f"choose one of {', '.join(known)}")
    if config.disjoint not in ("", "wholly", "partly", "none"):
        raise UsageError(f"--disjoint {config.disjoint!r} is unknown", hint="choose wholly, partly or none")
    if not 0 <= config.poor <= config.good <= 1:
        raise UsageError(
            f"--poor {config.poor:g} and --good {config.good:g} must be shares, the first not above the second"
        )
    if config.resamples < 1:
        raise UsageError(f"--resamples {config.resamples} must be at least 1")
