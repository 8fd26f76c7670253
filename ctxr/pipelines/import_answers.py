"""`ctxr import-answers`: answers from our own server or from a platform become judgments."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxr.errors import UnfinishedError, UsageError
from ctxr.pipelines.talk import Silent, Talk

if TYPE_CHECKING:
    from ctxr.annotation.backends.arrivals import Arrivals, Refusal
    from ctxr.pipelines.intake import Taken
    from ctxr.pipelines.tasks_artifact import Answered, Tasks

PLATFORMS = ("local", "mturk", "prolific", "label-studio")

REFUSED = "refused.jsonl"
"""Answers that were not taken, and why; a row goes when its file is imported again or its answer is taken from another."""


@dataclass(frozen=True)
class ImportAnswers:
    """Configuration of `ctxr import-answers`; a field's text is its help."""

    file: Path | None = None
    """What the platform exported; without one, answers are fetched (mturk, prolific) or read from the journal (local)."""
    platform_of: str = "local"
    """Where the answers are from: local, mturk, prolific, label-studio."""
    out: Path | None = None
    """Folder to write; default: `judgments` in the workdir."""
    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""
    tasks: str = ""
    """Folder of `tasks` that the file answers, where several were exported for that platform with other options."""
    database: str = ""
    """Database of `ctxr serve`, when it is not the file in the workdir (local, prolific)."""
    live: bool = False
    """Fetch from paid work, not from the sandbox (mturk)."""
    extend: bool = False
    """Ask for another vote where those that came do not decide (mturk)."""

    def folder(self) -> Path:
        """Where the judgments are written."""
        return self.out or self.workdir / "judgments"


@dataclass(frozen=True)
class ImportAnswersReport:
    """What `import-answers` says when it is done.

    Attributes:
        judgments: the folder. platform: where the answers are from. up_to_date: nothing changed.
        new: answers taken. again: those that were there already. refused: those that were not taken; reasons: how many by code.
        counts: the manifest's. notes: one sentence each.
    """

    judgments: Path
    platform: str
    up_to_date: bool
    new: int
    again: int
    refused: int
    reasons: dict[str, int]
    counts: dict[str, Any]
    notes: list[str]


def run(config: ImportAnswers, talk: Talk | None = None) -> ImportAnswersReport:
    """Merge answers into the judgments.

    Raises UsageError for wrong arguments, UnfinishedError where nothing was exported to the platform or the file holds
    no answers, DataError naming file:row for a file that is foreign, edited or cut short; then nothing is changed.
    """
    from ctxr.data.artifacts import Parent, finished, locked, refuse_strangers
    from ctxr.data.tables import write_table
    from ctxr.pipelines.arriving import arrive, exported_to, keep_apart
    from ctxr.pipelines.exporting.place import making
    from ctxr.pipelines.tasks_artifact import JUDGMENTS, judgments_config, read_all_tasks, write_judgments

    talk = talk or Silent()
    _check(config)
    every = read_all_tasks(config.workdir)
    exported = exported_to(config, every)
    out = config.folder()
    refuse_strangers(out)
    with locked(out):
        before, earlier = _before(out)
        arrivals = arrive(config, exported, talk)
        if config.file is not None and not arrivals.rows and not arrivals.refused:
            raise UnfinishedError(f"{config.file} holds no answers", hint="export it again once people have answered")
        taken = _taken(before, arrivals, every)
        answered = _answered(taken, before, every)
        mine = tuple(f"{label}:" for label in arrivals.labels)
        refused = [one for one in _standing(earlier, arrivals, taken) if not one.where.startswith(mine)] + taken.refused
        parents = [
            Parent(one.name, one.artifact.manifest.kind, one.artifact.sha256)
            for one in every
            if any(unit.id in answered.units for unit in one.units)
        ]
        settings = judgments_config(out, answered.root, {})
        ready = finished(out, JUDGMENTS, "import-answers", settings, parents)
        by_place = sorted(refused, key=lambda one: one.key())
        up_to_date = ready is not None and not ready.changed_files() and not taken.new and by_place == earlier
        if not up_to_date:
            with making(out) as folder:
                write_table(folder / REFUSED, refused)
                ready = write_judgments(folder, answered, {}, parents, [REFUSED], out)
        notes = keep_apart(config, exported, arrivals, taken)
    reasons = Counter(refusal.code for refusal in taken.refused)
    return ImportAnswersReport(
        out,
        config.platform_of,
        up_to_date,
        taken.new,
        taken.again,
        len(taken.refused),
        dict(sorted(reasons.items())),
        ready.manifest.counts if ready else {},
        notes,
    )


def _before(out: Path) -> "tuple[Answered | None, list[Refusal]]":
    from ctxr.annotation.backends.arrivals import Refusal
    from ctxr.data.artifacts import MANIFEST
    from ctxr.data.tables import read_table
    from ctxr.pipelines.tasks_artifact import read_judgments

    if not (out / MANIFEST).is_file():
        return None, []
    refused = read_table(out / REFUSED, Refusal) if (out / REFUSED).is_file() else []
    return read_judgments(out), refused


def _standing(earlier: "list[Refusal]", arrivals: "Arrivals", taken: "Taken") -> "list[Refusal]":
    """Refusals of other files, but for those of answers that were taken from this one."""
    mended = {(row.answer.unit, row.answer.worker) for row in arrivals.rows if row.where in taken.accepted}
    return [one for one in earlier if one.code == "answered_before" or (one.unit, one.worker) not in mended]


def _taken(before: "Answered | None", arrivals: "Arrivals", every: "list[Tasks]") -> "Taken":
    from ctxr.errors import DataError
    from ctxr.pipelines.intake import UnitContext, take

    questions: dict[str, UnitContext] = {}
    for tasks in every:
        for unit in tasks.units:
            asked = UnitContext(unit, tasks.sets[unit.image_set], tasks.protocol)
            if questions.setdefault(unit.id, asked).unit != unit:
                raise DataError(
                    f"the unit {unit.id!r} is in {tasks.path} and elsewhere, and not the same",
                    hint="export one of them again, with the options of the other",
                )
    if before is None:
        return take((), arrivals, questions, {})
    past = {name: UnitContext(unit, before.sets[unit.image_set], None) for name, unit in before.units.items()}
    return take(before.answers, arrivals, questions, past)


def _answered(taken: "Taken", before: "Answered | None", every: "list[Tasks]") -> "Answered":
    from ctxr.pipelines.common_root import under_one_root
    from ctxr.pipelines.intake import merged
    from ctxr.pipelines.tasks_artifact import Answered

    units = taken.answered()
    shown = {name for unit in units.values() for name in unit.images}
    parts = [(before.root, list(before.images.values()))] if before else []
    for tasks in every:
        mine = [image for name, image in tasks.images.items() if name in shown]
        if mine:
            parts.append((tasks.root, mine))
    root, images = under_one_root(parts or [(one.root, ()) for one in every])
    sets = {unit.image_set: taken.questions[unit.id].image_set for unit in units.values()}
    tables = merged(taken)
    return Answered(
        root, units, sets, {name: image for name, image in images.items() if name in shown},
        tuple(taken.answers.values()), tables.texts, tables.queries, tables.judgments, tables.dialogues,
    )  # fmt: skip


def _check(config: ImportAnswers) -> None:
    if config.platform_of not in PLATFORMS:
        from difflib import get_close_matches

        near = get_close_matches(config.platform_of, PLATFORMS, n=1)
        hint = f"did you mean --from {near[0]}?" if near else f"choose one of {', '.join(PLATFORMS)}"
        raise UsageError(f"--from {config.platform_of} is unknown", hint=hint)
    if config.file is None and config.platform_of == "label-studio":
        raise UsageError(
            f"answers of {config.platform_of} are in a file",
            hint=f"ctxr import-answers FILE --from {config.platform_of}",
        )
    if config.file is not None and config.platform_of == "local":
        raise UsageError(
            "answers of our own server are in its journal, not in a file",
            hint="leave the file out, or say where it is from: --from label-studio, …",
        )
    if (config.live or config.extend) and config.platform_of != "mturk":
        raise UsageError("--live and --extend go with --from mturk", hint="leave them out")
