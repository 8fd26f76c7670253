"""Answers from the journal, a file or a platform, validated and merged into judgments."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from ctxr.annotation.artifacts import (
    AggregatedAnswers,
    Tasks,
    first_task,
    open_tasks,
    read_judgments,
    read_tasks,
    write_judgment_tables,
)
from ctxr.annotation.config import ImportAnswers, ImportAnswersReport
from ctxr.annotation.confirmation import apply_standings, unconfirmed_note
from ctxr.annotation.journal.identities import Identities, read_visits
from ctxr.annotation.journal.results import Gone
from ctxr.annotation.journal.withdrawing import built_on
from ctxr.annotation.launch import addresses, private_folder, read_study
from ctxr.annotation.platforms import prolific
from ctxr.annotation.platforms.arrivals import Arrival, Arrivals, Refusal
from ctxr.annotation.platforms.label_studio import ExportedUnits, read_export
from ctxr.annotation.project_journal import project_journal
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.pseudonyms import read_key
from ctxr.annotation.records import Answer, Outcome, Unit
from ctxr.annotation.task_batch import merge_roots
from ctxr.annotation.tasks import counts, most_answers, problems_of, task_of
from ctxr.annotation.tasks.dialogue import PAIR
from ctxr.annotation.tasks.values import Exposure
from ctxr.annotation.unit_factory import derive_units
from ctxr.annotation.wording import Problem
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.project import command_in
from ctxr.engine.stage import Inputs, Stage, execute
from ctxr.errors import DataError, DryRun, UnfinishedError, plural
from ctxr.store.artifacts import MANIFEST, Artifact, Content, Parent, open_artifact
from ctxr.store.atomic import DRY_RUN, write_bytes
from ctxr.store.hashing import sha256_if_readable, sha256_of
from ctxr.store.kinds import JUDGMENTS, SERVED, TASKS
from ctxr.store.records import ImageSet, Record
from ctxr.store.tables import pretty_json, read_table, write_table

JOURNAL = Path("journal")
"""How rows of our own server are named in refusals."""


def answered_tasks(config: ImportAnswers, tasks: Sequence[Artifact]) -> list[Artifact]:
    """The tasks exported to the platform of `config`; for our own server, all. Raises UnfinishedError without any."""
    platform = config.platform_of
    named = [one for one in tasks if config.tasks in ("", one.path.resolve().name)]
    chosen = [one for one in named if platform in ("local", one.manifest.config["backend"])]
    if not chosen:
        folder = f" in tasks/{config.tasks}" if config.tasks else ""
        kinds = sorted({one.manifest.config.get("task", "describe") for one in named})
        task = kinds[0] if len(kinds) == 1 else first_task(config.workdir)
        raise UnfinishedError(
            f"nothing was exported to {platform}{folder}", hint=f"ctxr export-tasks {task} --backend {platform}"
        )
    return chosen


def arrivals_of(
    config: ImportAnswers,
    file: Path | None,
    tasks: Sequence[Tasks],
    known: Collection[tuple[str, str]],
    progress: Progress,
) -> Arrivals:
    """The answers to `tasks` in `file`, or in the journal; of those by unit and worker in `known`, an earlier import has told.

    Raises DataError naming file:row.
    """
    private = private_folder(config.workdir)
    key = read_key(private)
    if file is not None and config.platform_of == "label-studio":
        exports = []
        for one in tasks:
            pictures = addresses(one.config["image_base"], one.images, key)
            exports.append(ExportedUnits({unit.id: unit for unit in one.units}, pictures, one.protocol))
        return read_export(file, exports, key)
    with project_journal(config.workdir, config.database) as journal:
        stored = journal.answers() if journal else []
    if file is not None:
        studies = [study for one in tasks if (study := read_study(one.path)) is not None]
        return prolific.confirmed_answers(file, stored, read_visits(private), studies, key)
    arrivals = Arrivals(JOURNAL)
    for answer in sorted(stored, key=Answer.key):
        if answer.backend != prolific.PLATFORM:  # these count once Prolific confirms the submission
            arrivals.take(f"{answer.unit}/{answer.worker}", answer)
    if waiting := sum(one.backend == prolific.PLATFORM and one.key() not in known for one in stored):
        progress.warn(
            f"{waiting} answers of people from Prolific are left out: ctxr import-answers --from prolific takes them"
        )
    return arrivals


REJECTED_SINCE = "rejected_since"
"""Code of a refusal whose answer was taken before."""

_Moment = tuple[str, str, str]


def _moment(answer: Answer) -> _Moment:
    return answer.at, answer.unit, answer.worker


@dataclass(frozen=True)
class AnswerableUnit:
    """A unit with its set and protocol; None where its tasks are gone: earlier answers stay, no new ones are taken."""

    unit: Unit
    image_set: ImageSet
    protocol: Protocol | None


@dataclass(eq=False)
class AnswerMerge:
    """Answers merged in the order of their times, under the rules of our own pages.

    Attributes:
        units: all that may be answered, follow-ups included, by id.
        replaced: workers whose votes do not count here, because others may replace them.
        answers, outcomes: by unit and worker.
        new: answers taken now. again: those that were there already, with the same values. accepted: where both stand.
        refused: in the order of the rows.
    """

    units: dict[str, AnswerableUnit]
    replaced: Collection[str]
    answers: dict[tuple[str, str], Answer] = field(default_factory=dict)
    outcomes: dict[tuple[str, str], Outcome] = field(default_factory=dict)
    new: int = 0
    again: int = 0
    accepted: set[str] = field(default_factory=set)
    refused: list[Refusal] = field(default_factory=list)
    _votes: Counter[str] = field(default_factory=Counter)
    # descriptions, to detect texts that were sent twice or copied
    _by_worker: dict[str, list[tuple[_Moment, str]]] = field(default_factory=lambda: defaultdict(list))
    _by_set: dict[str, list[tuple[_Moment, str, str]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, row: Arrival) -> None:
        """Take the answer of a row, or refuse it."""
        answer, question = row.answer, self.units.get(row.answer.unit)
        earlier = self.answers.get((answer.unit, answer.worker))
        problem: Problem | None = None
        if question is None:
            problem = Problem("no_question", "The question follows from an answer that was not imported.")
        elif earlier is not None:
            if not earlier.has_values(answer.values):
                problem = Problem("answered_before", "The same worker gave the same unit another answer before.")
        elif question.protocol is None:
            problem = Problem("no_question", "The tasks of this question no longer exist.")
        else:
            # what was written before this answer: a copy is always the later of two texts
            now, others = _moment(answer), self._by_set[question.unit.image_set]
            exposure = Exposure(
                own=tuple(text for then, text in self._by_worker[answer.worker] if then < now),
                others=tuple(text for then, worker, text in others if worker != answer.worker and then < now),
            )
            if wrong := problems_of(question.unit, answer, exposure):
                problem = Problem(wrong[0].code, " ".join(one.sentence for one in wrong))
            elif self._votes[answer.unit] >= most_answers(question.unit):
                problem = Problem("enough", "The question already has all answers it needs.")
        if problem is not None:
            self.refused.append(Refusal(row.where, answer.unit, answer.worker, problem.code, problem.sentence))
            return
        self.accepted.add(row.where)
        if earlier is None:
            self.store(answer)
            self.new += 1
        else:
            self.again += 1

    def store(self, answer: Answer) -> None:
        """Take an answer as it is, with the units that follow from it. Raises DataError for one that cannot be scored."""
        question, key = self.units[answer.unit], (answer.unit, answer.worker)
        try:
            outcome = task_of(question.unit).score(question.unit, answer)
        except (KeyError, IndexError, ValueError) as error:
            raise DataError(
                f"the answer of {answer.worker} to {answer.unit} cannot be scored: {error}",
                hint="restore the judgments from a backup, and import the answers again",
            ) from error
        self.answers[key], self.outcomes[key] = answer, outcome
        self._votes[answer.unit] += counts(question.unit, answer, self.replaced)
        for text in outcome.texts if question.unit.task == "describe" else ():
            self._by_worker[answer.worker].append((_moment(answer), text.text))
            self._by_set[question.unit.image_set].append((_moment(answer), answer.worker, text.text))
        if question.protocol is None:
            return
        for unit in derive_units(question.unit, answer, question.image_set, question.protocol):
            if self.units.setdefault(unit.id, replace(question, unit=unit)).unit != unit:
                raise DataError(
                    f"the unit {unit.id!r} was exported with other votes or another seed than its description",
                    hint="export both tasks with the same options, or one of them into another --workdir",
                )

    def answerable(self, rows: list[Arrival]) -> Iterator[Arrival]:
        """Take those rows out of the list whose unit is known, as long as their answers make more units known."""
        before = -1
        while len(rows) != before:
            before, later = len(rows), []
            for row in rows:
                if row.answer.unit in self.units:
                    yield row
                else:
                    later.append(row)
            rows[:] = later

    def tables(self) -> dict[str, Any]:
        """The rows that all answers are worth, by table. Raises DataError where two make different rows of one key."""
        tables: dict[str, dict[tuple[str | int, ...], Record]] = {
            "texts": {}, "queries": {}, "judgments": {}, "dialogues": {},
        }  # fmt: skip
        for (unit, _), outcome in self.outcomes.items():
            for name, rows in tables.items():
                for row in getattr(outcome, name):
                    if rows.setdefault(row.key(), row) != row:
                        raise DataError(f"two answers make different {name} {row.key()}, one of them to {unit}")
        return {name: tuple(rows[key] for key in sorted(rows)) for name, rows in tables.items()}


def merge_answers(
    before: Iterable[Answer],
    arrivals: Arrivals,
    units: Mapping[str, AnswerableUnit],
    past: Mapping[str, AnswerableUnit],
    replaced: Collection[str] = (),
) -> AnswerMerge:
    """The answers from `before`, and those that arrived and fit; `past` are units of earlier imports, whose tasks may be gone."""
    merge = AnswerMerge(dict(units), replaced)
    came = {row.answer.key(): row.answer for row in arrivals.rows if row.answer.backend in SERVED}
    # what its worker has corrected since on our pages, where nothing was built on it, is taken anew
    same = (one for one in before if one.at != (new := came.get(one.key(), one)).at or one.has_values(new.values))
    stored = [Arrival("", answer) for answer in sorted(same, key=_moment)]
    while stored:
        for row in merge.answerable(stored):
            merge.store(row.answer)
        merge.units |= {row.answer.unit: past[row.answer.unit] for row in stored}
    for refusal in arrivals.refused:
        if refusal.code == "submission" and (refusal.unit, refusal.worker) in merge.answers:
            advice = f"ctxr workers --allow {refusal.worker} keeps it."
            sentence = f"{refusal.sentence} The answer was taken before, and counts no more; {advice}"
            refusal = msgspec.structs.replace(refusal, code=REJECTED_SINCE, sentence=sentence)
        merge.refused.append(refusal)
    rows = sorted(arrivals.rows, key=lambda row: _moment(row.answer))
    for row in chain(merge.answerable(rows), rows):  # the other rows are left once that ends
        merge.add(row)
    return merge


REFUSED = "refused.jsonl"
"""Answers that were not taken, and why; a row goes when its file is imported again, or its answer from another file."""


def refused_answers(judgments: Path) -> dict[str, int]:
    """How many answers were refused, by reason, when the artifact `judgments` was imported."""
    file = judgments / REFUSED
    rows = read_table(file, Refusal) if file.is_file() else []
    return dict(sorted(Counter(row.code for row in rows).items()))


@dataclass(frozen=True)
class ImportInputs(Inputs):
    """What an import reads: `tasks`, by name, who is or was blocked, whose votes others may have `replaced`, and what is gone."""

    tasks: frozenset[str]
    replaced: tuple[str, ...]
    gone: Gone


@dataclass(eq=False)
class JudgmentStage(Stage[ImportInputs]):
    """The judgments with the answers of one source merged into them."""

    KIND = JUDGMENTS
    options: ImportAnswers
    file: Path | None = None

    def inputs(self, progress: Progress) -> ImportInputs:
        """Every exported task, and the source: the journal by its identity, a file by its bytes and by what it is compared with."""
        config = self.options
        every = open_tasks(config.workdir)
        tasks = answered_tasks(config, every)
        content: list[object] = [config.tasks, self.file and sha256_if_readable(self.file)]
        with project_journal(config.workdir, config.database) as journal:
            if journal is None and config.platform_of in SERVED:
                serve = command_in(config.workdir, "serve", "--invite", "3")
                take = command_in(config.workdir, "import-answers", "--from", "prolific")
                raise UnfinishedError(
                    f"{config.workdir} has no answers: ctxr serve has not run here",
                    hint=f"{serve}   (answers from a platform: {take})",
                )
            replaced = journal.blocked(ever=True) if journal else ()
            gone = journal.withdrawn() if journal else Gone()
            content += [journal.identity()] if journal else []
        if config.platform_of == "prolific":
            content += [(visit.submission, visit.participant) for visit in read_visits(private_folder(config.workdir))]
        source = Parent((self.file or JOURNAL).name, config.platform_of, sha256_of(content))
        parents = [*(Parent(one.path.resolve().name, TASKS, one.sha256) for one in every), source]
        return ImportInputs(parents, {}, frozenset(one.path.resolve().name for one in tasks), replaced, gone)

    def write(self, inputs: ImportInputs, out: Path, progress: Progress) -> Content:
        """Merge the answers. Raises DataError naming file:row for a damaged file, UnfinishedError for an empty one."""
        config, place = self.options, self.out()
        every = [read_tasks(one.path) for one in open_tasks(config.workdir)]
        before = read_judgments(place) if (place / MANIFEST).is_file() else None
        earlier = read_table(place / REFUSED, Refusal) if before and (place / REFUSED).is_file() else []
        earlier = [row for row in earlier if row.worker not in inputs.gone.workers]
        if inputs.gone.workers:
            lost = _lost(inputs.gone, every, before)
            every = [replace(one, units=tuple(unit for unit in one.units if unit.id not in lost)) for one in every]
            before = before and _without(before, inputs.gone.workers, lost)
        tasks = [one for one in every if one.name in inputs.tasks]
        known = before.answers if before else ()
        told = {*((one.unit, one.worker) for one in known), *((row.unit, row.worker) for row in earlier)}
        arrivals = arrivals_of(config, self.file, tasks, told, progress).without(inputs.gone.workers)
        if config.file is not None and not arrivals.rows and not arrivals.refused:
            raise UnfinishedError(f"{config.file} holds no answers", hint="export it again once people have answered")
        past = (
            {unit.id: AnswerableUnit(unit, before.sets[unit.image_set], None) for unit in before.units.values()}
            if before
            else {}
        )
        units: dict[str, AnswerableUnit] = {}
        for one in every:
            for unit in one.units:
                question = AnswerableUnit(unit, one.sets[unit.image_set], one.protocol)
                if units.setdefault(unit.id, question).unit != unit:
                    raise DataError(
                        f"the unit {unit.id!r} is in {one.path} and elsewhere, and not the same",
                        hint="export one of them again, with the options of the other",
                    )
        merge = merge_answers(known, arrivals, units, past, inputs.replaced)
        answered = _answered(merge, before, every)
        # refusals of other files, but for those of answers that this one has too
        accepted = {(row.answer.unit, row.answer.worker) for row in arrivals.rows if row.where in merge.accepted}
        refused_again = {(row.unit, row.worker, row.code) for row in merge.refused if row.worker}
        refused = merge.refused + [
            row
            for row in earlier
            if not row.where.startswith(f"{arrivals.path.name}:")
            and (row.code == "answered_before" or (row.unit, row.worker) not in accepted)
            and (row.unit, row.worker, row.code) not in refused_again
        ]
        self.announce(progress, new=merge.new, known=merge.again, refused=len(merge.refused))
        write_table(out / REFUSED, sorted(refused, key=Refusal.key))
        content = write_judgment_tables(out, answered, place)
        exported = {unit.id for one in tasks for unit in one.units if unit.purpose == "work"}
        figures = {
            "new": merge.new,
            "again": merge.again,
            "refused": dict(sorted(Counter(refusal.code for refusal in merge.refused).items())),
            "unanswered": len(exported - answered.units.keys()),
        }
        # store who is behind the pseudonyms of the workers
        private = private_folder(config.workdir)
        if arrivals.identities:
            with closing(Identities(private, read_key(private))) as identities:
                for identity in arrivals.identities.values():
                    identities.worker(arrivals.platform, identity)
        return Content([*content.files, REFUSED], content.counts | figures, {})


def run(config: ImportAnswers, progress: Progress = SILENT) -> ImportAnswersReport:
    """Merge answers into the judgments. Raises UnfinishedError where there are none, DataError naming file:row; then nothing changes."""
    config.check()
    tasks, file, out = answered_tasks(config, open_tasks(config.workdir)), config.file, config.folder()
    studies = [study for one in tasks if (study := read_study(one.path)) is not None]
    if file is None and config.platform_of != "local":
        if not studies:
            hint = "ctxr export-tasks TASK --backend prolific --launch"
            raise UnfinishedError("no study was launched from this project", hint=hint)
        client, file = prolific.connect(), private_folder(config.workdir) / "prolific-submissions.json"
        if DRY_RUN.get():
            raise DryRun(f"would fetch {plural(len(studies), 'study', 'studies')} from Prolific, and write {out}")
        came = {visit.submission for visit in read_visits(private_folder(config.workdir))}
        rows = (row for study in studies for row in client.submissions(study) if row["id"] in came)
        write_bytes(file, pretty_json(sorted(rows, key=lambda row: row["id"])))  # of nobody who was deleted
    unconfirmed = ""
    if file is not None and config.platform_of == "prolific" and not DRY_RUN.get():
        submissions, written = prolific.read_submissions(file, studies), file.stat().st_mtime
        visits, listed_at = read_visits(private_folder(config.workdir)), datetime.fromtimestamp(written, UTC)
        with project_journal(config.workdir, config.database, read_only=False) as journal:
            if journal is not None:
                apply_standings(journal, prolific.standings(submissions, visits, listed_at), datetime.now(UTC))
            unconfirmed = unconfirmed_note(journal)
    before = open_artifact(out, JUDGMENTS).content if (out / MANIFEST).is_file() else ""
    up_to_date = execute(JudgmentStage(config, file), progress).up_to_date
    merged = open_artifact(out)
    counts = merged.manifest.counts
    new, again, reasons, unanswered = (counts.pop(name) for name in ("new", "again", "refused", "unanswered"))
    return ImportAnswersReport(
        judgments=out,
        platform=config.platform_of,
        up_to_date=merged.content == before,
        new=0 if up_to_date else new,
        again=new + again if up_to_date else again,
        refused=sum(reasons.values()),
        reasons=reasons,
        counts=counts,
        unanswered=unanswered,
        unconfirmed=unconfirmed,
    )


def _answered(merge: AnswerMerge, before: AggregatedAnswers | None, every: list[Tasks]) -> AggregatedAnswers:
    """All answers with the units, sets and pictures that they are about."""
    units = {name: merge.units[name].unit for name in sorted({unit for unit, _ in merge.answers})}
    shown = {name for unit in units.values() for name in unit.images}
    parts = [(before.root, list(before.images.values()))] if before else []
    pictures = ((tasks.root, [image for name, image in tasks.images.items() if name in shown]) for tasks in every)
    parts += [(root, images) for root, images in pictures if images]
    merged = merge_roots(parts or [(tasks.root, ()) for tasks in every])
    images = {name: image for name, image in merged.images.items() if name in shown}
    sets = {unit.image_set: merge.units[unit.id].image_set for unit in units.values()}
    rows = [*(before.objects if before else ()), *(row for tasks in every for row in tasks.objects)]
    tables = merge.tables() | {"objects": tuple({row.key(): row for row in rows}.values())}
    return AggregatedAnswers(merged.root, units, sets, images, tuple(merge.answers.values()), **tables)


def _lost(gone: Gone, every: Sequence[Tasks], before: AggregatedAnswers | None) -> set[str]:
    """Ids of the units that are built on what the workers in `gone` gave."""
    units = [*(before.units.values() if before else ()), *(unit for tasks in every for unit in tasks.units)]
    texts = [text for text in before.texts if text.author in gone.workers] if before else []
    return built_on(units, gone.workers, texts) | gone.units


def _without(before: AggregatedAnswers, workers: Collection[str], lost: Collection[str]) -> AggregatedAnswers:
    """Earlier answers but for those of the workers, the talks with them, and those to the units that are lost."""
    kept = {name: unit for name, unit in before.units.items() if name not in lost}
    answers = (one for one in before.answers if {*workers}.isdisjoint((one.worker, *one.values.get(PAIR, ()))))
    return replace(before, units=kept, answers=tuple(one for one in answers if one.unit in kept))


def merge_journal(workdir: Path, progress: Progress, database: str = "") -> Path:
    """The judgments, with the answers in the journal merged into them. Raises UnfinishedError where there is neither."""
    with project_journal(workdir, database) as journal:
        if journal is not None or not (workdir / JUDGMENTS / MANIFEST).is_file():
            execute(JudgmentStage(ImportAnswers(workdir=workdir, database=database)), progress)
    return workdir / JUDGMENTS
