"""Options of the verbs that bring tasks to people and their answers back."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ctxr.annotation.cost import ASSUMED_SECONDS
from ctxr.annotation.platforms.mturk import Offer
from ctxr.annotation.platforms.prolific import StudyOffer
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.records import TaskName
from ctxr.annotation.tasks.tag import NOTES

TASK_NAMES: tuple[TaskName, ...] = ("describe", "retrieve", "dialogue", "verify", "tag", "entail", "audit")

BACKENDS = ("local", "mturk", "prolific", "label-studio")

PAPER_REWARDS = {"describe": 25}
"""Cents (ImageCoDe, section 3); a retrieval and all else 10."""


@dataclass(frozen=True)
class ExportTasks(Protocol):
    """Configuration of `ctxr export-tasks`; a field's text is its help."""

    task: str = ""
    """Task: describe, retrieve, dialogue, verify, tag, entail, audit."""
    input: Path | None = None
    """What it is made from; default: the furthest sets of the workdir (describe, dialogue, entail), its `judgments` (retrieve,
    verify, audit), its `dataset` (tag). Retrieve and tag also take a published release."""
    out: Path | None = None
    """Folder to write; default: `tasks/TASK` in the workdir."""
    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""
    backend: str = "local"
    """Who brings the people: local (ctxr serve), prolific, label-studio or mturk (closed to new requesters since July 2026)."""
    force: bool = False
    """Replace tasks that were answered or launched by others; answers to units that are gone then fit nowhere."""
    raters: int = 0
    """People who do each unit of tag or entail; 0 = 1 for tag, 3 for entail."""
    labels: str = ""
    """Phenomena to tick, separated by commas (tag); default: those of ImageCoDe, section 4.4, and colour."""
    candidates: Path | None = None
    """JSONL of {image, statement, text, captions} to be judged (entail); default: the sample of the latest round of
    `ctxr revise-labels`."""
    objects: Path | None = None
    """JSONL of {image, labels}: what is in each photo, a hint for who sees it (dialogue)."""
    fraction: float = 0.1
    """Share of the answered units that is looked at again (audit)."""
    gold: Path | None = None
    """Dataset with known targets, for hidden questions and the qualification round."""
    image_base: str = ""
    """Address below which the pictures can be reached from the web, with the paths of images.jsonl (mturk,
    label-studio)."""
    title: str = ""
    """What workers read first; default: the task's own title."""
    reward: int | None = None
    """Pay in cents for a unit, on Prolific for a bundle; default: 25 for describe, else 10 (ImageCoDe, section 3), and on
    Prolific the least that it takes."""
    seconds: float = 0.0
    """Time that a unit takes, for the pay per hour; 0 = assumed by task."""
    minutes: int = 10
    """Time that a worker has for a unit (mturk)."""
    days: int = 3
    """Time that a unit is offered, and until it is approved by itself (mturk)."""
    approved: int = 98
    """Workers must have more than this percentage of their work approved (mturk; ImageCoDe: 98)."""
    countries: str = "US,GB,CA,AU,NZ,IE"
    """Countries of workers, two letters each (mturk; ImageCoDe: English-speaking)."""
    require: str = ""
    """Ids of own qualification types that a worker must have, separated by commas (mturk): an allow list."""
    exclude: str = ""
    """Ids of own qualification types that a worker must not have, separated by commas (mturk): a block list."""
    server: str = ""
    """Address of `ctxr serve` on the web (prolific)."""
    bundle: int = 20
    """Units that one person does in one go (prolific)."""
    currency: str = "GBP"
    """Currency of the account: GBP or USD (prolific)."""
    devices: str = "desktop,tablet"
    """Devices that may be used, of desktop, tablet, mobile (prolific)."""
    launch: bool = False
    """Send it to the platform: HITs to the sandbox (mturk), a draft of the study (prolific). Can be repeated."""
    live: bool = False
    """With --launch: for paid work, not the sandbox (mturk); publish the study (prolific)."""

    def folder(self) -> Path:
        """Where the tasks are written."""
        return self.out or self.workdir / "tasks" / self.task

    def protocol(self) -> Protocol:
        """The numbers of the study alone. Raises UsageError for numbers that cannot be meant."""
        return Protocol(**{field.name: getattr(self, field.name) for field in fields(Protocol)}).check()

    def phenomena(self) -> tuple[str, ...]:
        """Labels of the task tag."""
        return _listed(self.labels) or tuple(NOTES)

    def unit_seconds(self) -> float:
        """Time that a unit takes."""
        return self.seconds or ASSUMED_SECONDS.get(self.task, ASSUMED_SECONDS["retrieve"])

    def offer(self) -> "Offer":
        """How HITs are offered. Raises UsageError for what Mechanical Turk would refuse."""
        reward = PAPER_REWARDS.get(self.task, 10) if self.reward is None else self.reward
        required, excluded = _listed(self.require), _listed(self.exclude)
        countries = _listed(self.countries)
        return Offer(self.title, reward, self.minutes, self.days, self.approved, countries, required, excluded).check()

    def study(self) -> "StudyOffer":
        """How the study is offered. Raises UsageError for pay below Prolific's floor."""
        draft = StudyOffer(
            self.server, self.title, self.bundle, self.unit_seconds(), 0, self.currency, _listed(self.devices)
        )
        return draft.paid(self.reward).check()

    def result_config(self) -> dict[str, Any]:
        """The part that decides the result, besides the protocol."""
        names = {"tag": ("raters", "labels"), "entail": ("raters",), "audit": ("fraction",)}
        of_backend = {
            "mturk": (
                "image_base",
                "title",
                "reward",
                "minutes",
                "days",
                "approved",
                "countries",
                "require",
                "exclude",
            ),
            "label-studio": ("image_base",),
            "prolific": ("title", "reward", "seconds", "server", "bundle", "currency", "devices"),
        }
        chosen = (*names.get(self.task, ()), *of_backend.get(self.backend, ()))
        return {"task": self.task, **{name: getattr(self, name) for name in chosen}}


@dataclass(frozen=True)
class ExportTasksReport:
    """What `export-tasks` says when it is done.

    Attributes:
        tasks: the folder. up_to_date: nothing was to do. files: of the backend, relative to the folder.
        units: pieces of work. votes: answers wanted at most, without checks. checks: units that test the worker.
        launched: HITs or studies that are on the platform, sandbox or draft included. notes: one sentence each.
    """

    tasks: Path
    task: str
    backend: str
    up_to_date: bool
    units: int
    votes: int
    checks: int
    files: list[str]
    launched: int
    notes: list[str]


def _listed(words: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in words.split(",") if word.strip())


PLATFORMS = ("local", "mturk", "prolific", "label-studio")


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
