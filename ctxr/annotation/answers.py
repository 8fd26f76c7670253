"""Answers from the journal, a file or a platform, validated one by one and merged into judgments."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from ctxr.annotation.artifacts import (
    Answered,
    Tasks,
    first_task,
    open_tasks,
    read_all_tasks,
    read_judgments,
    write_judgment_tables,
)
from ctxr.annotation.config import ImportAnswers, ImportAnswersReport
from ctxr.annotation.journal.identities import Identities, read_visits
from ctxr.annotation.launch import addresses, private_folder, read_study
from ctxr.annotation.platforms import label_studio, prolific
from ctxr.annotation.platforms.arrivals import Arrival, Arrivals, Refusal
from ctxr.annotation.project_journal import blocked_workers, has_journal, project_journal
from ctxr.annotation.protocol import Protocol, shown_order
from ctxr.annotation.pseudonyms import read_key
from ctxr.annotation.records import Answer, Outcome, Unit
from ctxr.annotation.task_batch import merge_roots
from ctxr.annotation.tasks import counts, places, task_of
from ctxr.annotation.tasks.values import Exposure
from ctxr.annotation.unit_factory import derive_units
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.stage import Inputs, Stage, execute
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.store.artifacts import MANIFEST, Artifact, Content, Parent, open_artifact
from ctxr.store.atomic import write_bytes
from ctxr.store.hashing import sha256_if_readable, sha256_of
from ctxr.store.kinds import JUDGMENTS, TASKS
from ctxr.store.records import ImageSet, Record
from ctxr.store.tables import read_table, write_table

JOURNAL = Path("journal")
"""How rows of our own server are named in refusals; the answers were validated when they came, and are validated again."""


@dataclass(frozen=True)
class Exported:
    """What was exported to a platform; an import accepts only answers to it.

    Attributes:
        tasks: the artifacts. units: by id. addresses: of the pictures, as they were exported.
    """

    tasks: tuple[Tasks, ...]
    units: Mapping[str, Unit]
    addresses: Mapping[str, str]
    protocol: Protocol


def answered_tasks(config: ImportAnswers, tasks: Sequence[Artifact]) -> list[Artifact]:
    """The tasks that were exported to the platform of `config`; for our own server, all.

    Raises UnfinishedError where there are none, UsageError where it is not clear which are meant.
    """
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
    options = [[one.manifest.config.get(name) for name in ("protocol", "image_base")] for one in chosen]
    if any(one != options[0] for one in options) and platform not in ("local", "prolific"):
        names = [one.path.resolve().name for one in chosen]
        raise UsageError(
            f"tasks of {platform} were exported with different options: {', '.join(names)}", hint=f"--tasks {names[0]}"
        )
    return chosen


def exported_in(tasks: Sequence[Tasks]) -> Exported:
    """What these tasks ask, under one protocol."""
    pictures = [addresses(one.config.get("image_base", ""), one.images) for one in tasks]
    where = {name: address for part in pictures for name, address in part.items()}
    units = {unit.id: unit for one in tasks for unit in one.units}
    return Exported(tuple(tasks), units, where, tasks[0].protocol)


def fetch(config: ImportAnswers, tasks: Sequence[Artifact]) -> Path | None:
    """The file of answers that `config` names, or the submissions that Prolific lists now, kept in the private folder; None for our
    own server.

    Raises UnfinishedError where nothing was launched, and what the platform refuses as CtxrError.
    """
    if config.file is not None or config.platform_of == "local":
        return config.file
    studies = [study for one in tasks if (study := read_study(one.path)) is not None]
    if not studies:
        raise UnfinishedError(
            "no study was launched from this project", hint="ctxr export-tasks TASK --backend prolific --launch"
        )
    client, path = prolific.connect(), private_folder(config.workdir) / "prolific-submissions.json"
    rows = sorted((row for study in studies for row in client.submissions(study)), key=lambda row: row["id"])
    write_bytes(path, msgspec.json.format(msgspec.json.encode(rows), indent=1) + b"\n")
    return path


def arrive(config: ImportAnswers, file: Path | None, exported: Exported, progress: Progress) -> Arrivals:
    """The answers in `file`, or in the journal. Raises DataError naming file:row."""
    private = private_folder(config.workdir)
    key = read_key(private)
    if file is not None and config.platform_of == "label-studio":
        return label_studio.answers(file, exported.units, exported.addresses, exported.protocol, key)
    with project_journal(config.workdir, config.database) as journal:
        stored = journal.answers()
    if file is not None:
        studies = [study for tasks in exported.tasks if (study := read_study(tasks.path)) is not None]
        return prolific.answers(file, stored, read_visits(private), studies, key)
    arrivals = Arrivals(JOURNAL)
    for answer in sorted(stored, key=lambda answer: answer.key()):
        if answer.backend != prolific.PLATFORM:  # these count once Prolific confirms the submission
            arrivals.take(f"{answer.unit}/{answer.worker}", answer)
    if waiting := len(stored) - len(arrivals.rows):
        progress.warn(
            f"{waiting} answers of people from Prolific are left out: ctxr import-answers --from prolific takes them"
        )
    return arrivals


REJECTED_SINCE = "rejected_since"
"""Code of a refusal whose answer was taken before, and counts."""


_Moment = tuple[str, str, str]


def _moment(answer: Answer) -> _Moment:
    return answer.at, answer.unit, answer.worker


@dataclass(frozen=True)
class AnsweredUnit:
    """A unit that somebody may have answered, with its set and the protocol under which it was asked; None where its tasks
    are gone: then earlier answers stay, and no new ones are taken.
    """

    unit: Unit
    image_set: ImageSet
    protocol: Protocol | None


@dataclass
class Taken:
    """What is known after an import.

    Attributes:
        answers: all, by unit and worker; votes: how many by unit, without those of `replaced` workers, which others may replace.
        questions: all that may be answered, follow-ups included.
        new: taken now. again: there already, with the same values. refused: in the order of the rows.
        accepted: where the rows stand that were taken or were there already.
        by_worker, by_set: descriptions with the moments of their answers, to detect texts that were sent twice or copied.
    """

    answers: dict[tuple[str, str], Answer] = field(default_factory=dict)
    votes: Counter[str] = field(default_factory=Counter)
    questions: dict[str, AnsweredUnit] = field(default_factory=dict)
    new: int = 0
    again: int = 0
    refused: list[Refusal] = field(default_factory=list)
    accepted: set[str] = field(default_factory=set)
    replaced: Collection[str] = ()
    by_worker: dict[str, list[tuple[_Moment, str]]] = field(default_factory=lambda: defaultdict(list))
    by_set: dict[str, list[tuple[_Moment, str, str]]] = field(default_factory=lambda: defaultdict(list))

    def exposure(self, unit: Unit, answer: Answer) -> Exposure:
        """The texts written before this answer; a copy is always the later of two texts."""
        now, others = _moment(answer), self.by_set[unit.image_set]
        return Exposure(
            own=tuple(text for then, text in self.by_worker[answer.worker] if then < now),
            others=tuple(text for then, worker, text in others if worker != answer.worker and then < now),
        )

    def answered(self) -> dict[str, Unit]:
        """Units with an answer, by id."""
        return {name: self.questions[name].unit for name in sorted({unit for unit, _ in self.answers})}


def take(
    before: Iterable[Answer],
    arrivals: Arrivals,
    questions: Mapping[str, AnsweredUnit],
    past: Mapping[str, AnsweredUnit],
    replaced: Collection[str] = (),
) -> Taken:
    """The answers that were there and those that arrived and fit, in the order of their times.

    An answer may be to a follow-up of another that arrives with it. `past` are questions of earlier imports, for those whose
    tasks are gone.
    """
    taken = Taken(questions=dict(questions), replaced=replaced)
    stored = [Arrival("", answer) for answer in sorted(before, key=_moment)]
    while stored:
        stored = _rounds(taken, stored, _store)
        taken.questions |= {row.answer.unit: past[row.answer.unit] for row in stored}
    for refusal in arrivals.refused:
        if refusal.code == "submission" and (refusal.unit, refusal.worker) in taken.answers:
            advice = f"it was rejected later: ctxr workers --block {refusal.worker}, or keep it."
            sentence = f"{refusal.sentence} It was answered before and counts; {advice}"
            refusal = replace(refusal, code=REJECTED_SINCE, sentence=sentence)
        taken.refused.append(refusal)
    rows = sorted(arrivals.rows, key=lambda row: _moment(row.answer))
    for row in _rounds(taken, rows, _consider):
        _refuse(taken, row, "no_question", "The question follows from an answer that was not imported.")
    return taken


def _rounds(taken: Taken, rows: list[Arrival], act: Callable[[Taken, Arrival], None]) -> list[Arrival]:
    """Act on the rows whose question is known, as long as that makes other questions known; the remaining rows."""
    while True:
        later = []
        for row in rows:
            if row.answer.unit in taken.questions:
                act(taken, row)
            else:
                later.append(row)
        if len(later) == len(rows):
            return rows
        rows = later


def _consider(taken: Taken, row: Arrival) -> None:
    earlier = taken.answers.get((row.answer.unit, row.answer.worker))
    if problem := _problem(taken, row.answer, earlier):
        _refuse(taken, row, *problem)
        return
    taken.accepted.add(row.where)
    taken.again += earlier is not None
    if earlier is None:
        _store(taken, row)
        taken.new += 1


def _problem(taken: Taken, answer: Answer, earlier: Answer | None) -> tuple[str, str] | None:
    """Why an answer is not taken, as a code and a sentence; None where it is, or was before."""
    question = taken.questions[answer.unit]
    unit, task = question.unit, task_of(question.unit)
    if not answer.worker:
        return "nobody", "The answer names no worker."
    if earlier is not None:
        other = "answered_before", "The same worker gave the same unit another answer before."
        return None if _filled(earlier) == _filled(answer) else other
    if question.protocol is None:
        return "no_question", "The tasks of this question no longer exist."
    if answer.worker in unit.authors:
        return "own_work", "Workers may not judge their own work."
    if answer.order != shown_order(unit.images, unit.ordered, unit.id, answer.slot, question.protocol.seed):
        return "other_order", "The images were not shown in the order of its slot."
    if problems := task.validate(unit, answer.values, taken.exposure(unit, answer)):
        return problems[0].code, " ".join(problem.sentence for problem in problems)
    if taken.votes[unit.id] >= places(unit):
        return "enough", "The question already has all answers it needs."
    return None


def _filled(answer: Answer) -> dict[str, tuple[str, ...]]:
    return {name: tuple(values) for name, values in answer.values.items() if values}


def _refuse(taken: Taken, row: Arrival, code: str, sentence: str) -> None:
    taken.refused.append(Refusal(row.where, row.answer.unit, row.answer.worker, code, sentence))


def _store(taken: Taken, row: Arrival) -> None:
    answer, question = row.answer, taken.questions[row.answer.unit]
    taken.answers[answer.unit, answer.worker] = answer
    taken.votes[answer.unit] += counts(answer, taken.replaced)
    outcome = score(question.unit, answer)
    for text in outcome.texts if question.unit.task == "describe" else ():
        taken.by_worker[answer.worker].append((_moment(answer), text.text))
        taken.by_set[question.unit.image_set].append((_moment(answer), answer.worker, text.text))
    if question.protocol is None:
        return
    for unit in derive_units(question.unit, answer, question.image_set, question.protocol):
        derived = taken.questions.setdefault(unit.id, AnsweredUnit(unit, question.image_set, question.protocol))
        if derived.unit != unit:
            raise DataError(
                f"the unit {unit.id!r} was exported with other votes or another seed than its description",
                hint="export both tasks with the same options, or one of them into another --workdir",
            )


def score(unit: Unit, answer: Answer) -> Outcome:
    """The outcome of an answer. Raises DataError for one that cannot be scored; valid answers always can."""
    try:
        return task_of(unit).score(unit, answer)
    except (KeyError, IndexError, ValueError) as error:
        raise DataError(
            f"the answer of {answer.worker} to {unit.id} cannot be scored: {error}",
            hint="restore the judgments from a backup, and import the answers again",
        ) from error


def merged(taken: Taken) -> dict[str, Any]:
    """The rows that all answers are worth together, by table. Raises DataError where two answers make different rows of one
    key."""
    tables: dict[str, dict[tuple[str | int, ...], Record]] = {
        "texts": {}, "queries": {}, "judgments": {}, "dialogues": {},
    }  # fmt: skip
    for answer in taken.answers.values():
        outcome = score(taken.questions[answer.unit].unit, answer)
        for name, rows in tables.items():
            for row in getattr(outcome, name):
                if rows.setdefault(row.key(), row) != row:
                    raise DataError(f"two answers make different {name} {row.key()}, one of them to {answer.unit}")
    return {name: tuple(rows[key] for key in sorted(rows)) for name, rows in tables.items()}


REFUSED = "refused.jsonl"
"""Answers that were not taken, and why; a row goes when its file is imported again or its answer is taken from another."""


def refused_answers(judgments: Path) -> dict[str, int]:
    """How many answers were refused, by reason, when the artifact `judgments` was imported."""
    file = judgments / REFUSED
    rows = read_table(file, Refusal) if file.is_file() else []
    return dict(sorted(Counter(row.code for row in rows).items()))


@dataclass(frozen=True)
class ImportInputs(Inputs):
    """What an import reads.

    Attributes:
        tasks: names of those that the answers are to. replaced: workers who are or were blocked, whose votes others may replace.
    """

    tasks: frozenset[str]
    replaced: tuple[str, ...]


class JudgmentStage(Stage[ImportInputs]):
    """The judgments with the answers of one source merged into them."""

    KIND = JUDGMENTS
    options: ImportAnswers

    def __init__(self, options: ImportAnswers, file: Path | None = None) -> None:
        super().__init__(options)
        self.file = file

    def inputs(self, progress: Progress) -> ImportInputs:
        """Every exported task, and the source: the journal by its identity, a file by its bytes and by what it is compared with."""
        config = self.options
        every = open_tasks(config.workdir)
        tasks = answered_tasks(config, every)
        if config.platform_of == "local" and not has_journal(config.workdir, config.database):
            raise UnfinishedError(
                f"{config.workdir} has no answers: ctxr serve has not run here",
                hint="ctxr serve --invite 3   (answers from a platform: ctxr import-answers --from prolific)",
            )
        replaced = blocked_workers(config.workdir, config.database, ever=True)
        content: list[object] = [config.tasks, self.file and sha256_if_readable(self.file)]
        if has_journal(config.workdir, config.database):
            with project_journal(config.workdir, config.database) as journal:
                content.append(journal.identity())
        if config.platform_of == "prolific":
            content += [(visit.submission, visit.participant) for visit in read_visits(private_folder(config.workdir))]
        source = Parent((self.file or JOURNAL).name, config.platform_of, sha256_of(content))
        parents = [*(Parent(one.path.resolve().name, TASKS, one.sha256) for one in every), source]
        return ImportInputs(parents, {}, frozenset(one.path.resolve().name for one in tasks), replaced)

    def write(self, inputs: ImportInputs, out: Path, progress: Progress) -> Content:
        """Merge the answers. Raises DataError naming file:row for a file that is foreign, edited or cut short, UnfinishedError for one
        without answers."""
        config, place = self.options, self.out()
        every = read_all_tasks(config.workdir)
        exported = exported_in([tasks for tasks in every if tasks.name in inputs.tasks])
        before = read_judgments(place) if (place / MANIFEST).is_file() else None
        earlier = read_table(place / REFUSED, Refusal) if before and (place / REFUSED).is_file() else []
        arrivals = arrive(config, self.file, exported, progress)
        if config.file is not None and not arrivals.rows and not arrivals.refused:
            raise UnfinishedError(f"{config.file} holds no answers", hint="export it again once people have answered")
        taken = _taken(before, arrivals, every, inputs.replaced)
        answered = _answered(taken, before, every)
        # refusals of other files, but for those of answers that were taken from this one
        accepted = {(row.answer.unit, row.answer.worker) for row in arrivals.rows if row.where in taken.accepted}
        refused = taken.refused + [
            row
            for row in earlier
            if not row.where.startswith(f"{arrivals.path.name}:")
            and (row.code == "answered_before" or (row.unit, row.worker) not in accepted)
        ]
        write_table(out / REFUSED, sorted(refused, key=Refusal.key))
        content = write_judgment_tables(out, answered, place)
        units = exported.units.items()
        found = {
            "new": taken.new,
            "again": taken.again,
            "refused": dict(sorted(Counter(refusal.code for refusal in taken.refused).items())),
            "unanswered": sum(unit.purpose == "work" and name not in answered.units for name, unit in units),
        }
        # store who is behind the pseudonyms of the workers
        private = private_folder(config.workdir)
        if arrivals.people:
            with closing(Identities(private, read_key(private))) as identities:
                for platform, identity in arrivals.people.values():
                    identities.worker(platform, identity)
        return Content([*content.files, REFUSED], content.counts | found, {})


def run(config: ImportAnswers, progress: Progress = SILENT) -> ImportAnswersReport:
    """Merge answers into the judgments.

    Raises UsageError for wrong arguments, UnfinishedError where nothing was exported to the platform or the file holds
    no answers, DataError naming file:row for a file that is foreign, edited or cut short; then nothing is changed.
    """
    config.check()
    file = fetch(config, answered_tasks(config, open_tasks(config.workdir)))
    out = config.folder()
    before = open_artifact(out, JUDGMENTS).content if (out / MANIFEST).is_file() else ""
    result = execute(JudgmentStage(config, file), progress)
    if result.artifact is None:
        raise TypeError("judgments are never written in part")
    counts = dict(result.artifact.manifest.counts)
    new, again, reasons, unanswered = (counts.pop(name) for name in ("new", "again", "refused", "unanswered"))
    return ImportAnswersReport(
        judgments=out,
        platform=config.platform_of,
        up_to_date=result.artifact.content == before,
        new=0 if result.up_to_date else new,
        again=new + again if result.up_to_date else again,
        refused=sum(reasons.values()),
        reasons=reasons,
        counts=counts,
        unanswered=unanswered,
    )


def _taken(before: Answered | None, arrivals: Arrivals, every: list[Tasks], replaced: Collection[str]) -> Taken:
    questions: dict[str, AnsweredUnit] = {}
    for tasks in every:
        for unit in tasks.units:
            question = AnsweredUnit(unit, tasks.sets[unit.image_set], tasks.protocol)
            if questions.setdefault(unit.id, question).unit != unit:
                raise DataError(
                    f"the unit {unit.id!r} is in {tasks.path} and elsewhere, and not the same",
                    hint="export one of them again, with the options of the other",
                )
    if before is None:
        return take((), arrivals, questions, {}, replaced)
    past = {name: AnsweredUnit(unit, before.sets[unit.image_set], None) for name, unit in before.units.items()}
    return take(before.answers, arrivals, questions, past, replaced)


def _answered(taken: Taken, before: Answered | None, every: list[Tasks]) -> Answered:
    units = taken.answered()
    shown = {name for unit in units.values() for name in unit.images}
    parts = [(before.root, list(before.images.values()))] if before else []
    pictures = ((tasks.root, [image for name, image in tasks.images.items() if name in shown]) for tasks in every)
    parts += [(root, images) for root, images in pictures if images]
    root, images = merge_roots(parts or [(tasks.root, ()) for tasks in every])
    images = {name: image for name, image in images.items() if name in shown}
    sets = {unit.image_set: taken.questions[unit.id].image_set for unit in units.values()}
    return Answered(root, units, sets, images, tuple(taken.answers.values()), **merged(taken))


def merge_journal(workdir: Path, progress: Progress, database: str = "") -> Path:
    """The project's judgments, after the answers in its journal were merged into them, if there is one.

    Raises whatever `ctxr import-answers` raises; without a journal nothing is merged, and the artifact may not be there.
    """
    if has_journal(workdir, database):
        execute(JudgmentStage(ImportAnswers(workdir=workdir, database=database)), progress)
    return workdir / JUDGMENTS
