"""Options of the verbs that export tasks to workers and import their answers."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar

from ctxr.annotation.cost import ASSUMED_SECONDS, Offer
from ctxr.annotation.protocol import COUNT, POSITIVE, Protocol
from ctxr.annotation.tasks import NAMES
from ctxr.engine.options import Choices, Options, Range, Switch, Workdir
from ctxr.engine.report import VerbReport
from ctxr.errors import did_you_mean
from ctxr.store.kinds import JUDGMENTS

BACKENDS = ("local", "prolific", "label-studio")

_TYPED = tuple(name for name in NAMES if name != "own")

PAPER_REWARDS = {"describe": 25}
"""Cents (ImageCoDe, section 3); 10 for every other task."""

PROLIFIC_FLOOR = {"GBP": 600, "USD": 800}
"""Prolific's least pay for an hour in minor units, by the currency of the account."""

PROLIFIC_ADVISED = {"GBP": 900, "USD": 1200}
"""The pay for an hour that Prolific recommends, in minor units (Prolific's payment principles,
https://researcher-help.prolific.com/hc/en-gb/articles/4407695146002)."""

DEVICES = ("desktop", "tablet", "mobile")

COUNTRIES = {
    "US": "United States",
    "GB": "United Kingdom",
    "CA": "Canada",
    "AU": "Australia",
    "NZ": "New Zealand",
    "IE": "Ireland",
}
"""English-speaking countries (ImageCoDe, section 3), as Prolific calls them."""


@dataclass(frozen=True)
class ExportTasks(Protocol):
    """Options of `ctxr export-tasks`."""

    COMMAND: ClassVar[str] = "export-tasks"
    ARGUMENT: ClassVar[str] = "task"
    FOLDER: ClassVar[str] = "tasks/{task}"
    PANELS = (
        "One task: raters labels candidates objects fraction gold; "
        "Prolific: title reward seconds approved countries server per_submission currency devices launch live; Label Studio: image_base"
    )

    task: str = ""
    """Task: describe, retrieve, dialogue, review (whether a dialogue is kept), tag, entail, repeat (a second look), or FILE.toml, a task of
    your own."""
    input: Path | None = None
    """Artifact to make the tasks from; default: the latest sets of the workdir (describe, dialogue, entail, FILE.toml), its `judgments`
    (retrieve, review, repeat) or its `dataset` (tag, FILE.toml about queries). Retrieve and tag also take a published release."""
    out: Path | None = None
    """Folder to write; default: `tasks/TASK` in the workdir."""
    workdir: Workdir = Path("work")
    backend: Annotated[str, Choices(BACKENDS)] = "local"
    """Where workers answer: local (ctxr serve), prolific or label-studio."""
    force: bool = False
    """Replace tasks that were answered or launched; answers to units that no longer exist are then lost."""
    keep_leaks: Switch = False
    """Export tasks even if splits share pictures or footage."""
    raters: Annotated[int, COUNT] = 0
    """Workers per unit of tag, entail or FILE.toml; 0 = 1 for tag, 3 for entail, votes in the file."""
    labels: str = ""
    """Phenomena to choose from, separated by commas (tag); default: those of ImageCoDe, section 4.4, and colour."""
    candidates: Path | None = None
    """JSONL of {image, statement, text, captions} to judge (entail); default: the sample of the latest round of
    `ctxr revise-labels`."""
    objects: Path | None = None
    """JSONL of {image, labels}: objects in each photo, shown as a hint to the worker who sees it (dialogue). Or a CSV of boxes of Open
    Images, which also chooses the photos: with one of PhotoChat's labels, people only as main objects."""
    fraction: Annotated[float, Range(0, 1, "a share above 0, at most 1", above=True)] = 0.1
    """Share of the answered units that is judged a second time (repeat)."""
    gold: Path | None = None
    """Dataset with known targets, the source of hidden check questions and of the practice round (`qualification`). Units about the same
    pictures are left out."""
    image_base: str = ""
    """Web address of the folder `pictures` of the tasks (label-studio)."""
    title: str = ""
    """Title shown to workers; default: the task's own title."""
    reward: Annotated[int | None, COUNT] = None
    """Pay per submission in cents (prolific); default: the pay that Prolific recommends."""
    seconds: Annotated[float, Range(0, math.inf, "a number of seconds; 0 = assumed by task")] = 0.0
    """Seconds that a unit takes, for the pay per hour; 0 = assumed by task."""
    approved: Annotated[int, Range(0, 99, "a percentage below 100; 98 asks for more than 98 %, 0 for none")] = 98
    """Approval rate in percent that participants must exceed; 0 = any (prolific; ImageCoDe: 98)."""
    countries: str = ",".join(COUNTRIES)
    """Countries where participants live, two letters each, separated by commas; empty = any (prolific; ImageCoDe:
    English-speaking). With descriptions in another language than English, participants are by default fluent in it, and live anywhere."""
    server: str = ""
    """Web address of `ctxr serve` (prolific)."""
    per_submission: Annotated[int, POSITIVE] = 20
    """Units per submission (prolific)."""
    currency: str = "GBP"
    """Currency of the account: GBP or USD (prolific)."""
    devices: str = "desktop,tablet"
    """Allowed devices: desktop, tablet, mobile, separated by commas (prolific)."""
    launch: bool = False
    """Create a draft of the study on the platform (prolific). Safe to repeat."""
    live: bool = False
    """With --launch: publish the study; from then on people take part and are paid (prolific)."""

    def protocol(self) -> Protocol:
        """The numbers of the study alone."""
        return Protocol(**{field.name: getattr(self, field.name) for field in fields(Protocol)})

    def rules(self) -> Iterator[tuple[str, str]]:
        """A task, what its backend needs, and options that do nothing without another."""
        if self.task not in _TYPED and self.own is None:
            hint = did_you_mean(self.task, _TYPED, f"choose one of {', '.join(_TYPED)}, or FILE.toml with your own")
            yield f"there is no task {self.task!r}" if self.task else "the task is missing", hint
        if self.own and self.own.stem in NAMES:
            yield f"{self.own} is called like a task of ours, whose folder it would get", "give the file another name"
        yield from super().rules()
        if self.backend == "label-studio" and not self.image_base:
            yield (
                "label-studio loads the pictures from the web and needs their address",
                "--image-base https://…, where the folder `pictures` of the tasks can be reached",
            )
        if self.raters and self.task == "review":
            yield (
                "--votes does not apply to review, whose votes belong to the protocol of the dialogues",
                f"review_votes = {self.raters} in the file of --protocol, here and with export-tasks dialogue",
            )
        if self.reward is not None and self.backend != "prolific":
            yield f"--reward does nothing with {self.backend}", "ctxr plan --describe-reward or --retrieve-reward"
        if self.launch and self.backend != "prolific":
            yield f"--launch does nothing with {self.backend}", "--backend prolific"
        if self.live and not self.launch:
            yield "--live needs --launch", "--launch --live"
        if self.backend == "prolific":
            yield from self._prolific_rules()

    def _prolific_rules(self) -> Iterator[tuple[str, str]]:
        """What Prolific would refuse, such as pay below its floor."""
        if not self.server.startswith("https://"):
            sentence = "Prolific sends people to our own server, and needs its address"
            yield sentence, "--server https://…, where ctxr serve can be reached"
        if self.currency not in PROLIFIC_FLOOR:
            yield f"--currency {self.currency} is unknown", f"choose {' or '.join(PROLIFIC_FLOOR)}"
        for name, known in (("countries", COUNTRIES), ("devices", DEVICES)):
            for word in listed(getattr(self, name)):
                if word not in known:
                    yield f"--{name} {word} is unknown", f"choose of {', '.join(known)}"
        hourly, floor = self.pay() * 60 / self.bundle_minutes(), PROLIFIC_FLOOR.get(self.currency, 0)
        if hourly < floor:
            yield (
                f"{self.pay()} for {self.bundle_minutes()} minutes is {hourly / 100:.2f} {self.currency} an hour, "
                f"below the {floor / 100:.2f} that Prolific asks at least",
                f"--reward {self.hourly_pay(PROLIFIC_FLOOR)} or more",
            )

    @cached_property
    def own(self) -> Path | None:
        """The file of a task of one's own."""
        return Path(self.task) if self.task.endswith(".toml") else None

    @cached_property
    def task_name(self) -> str:
        """The task as units name it."""
        return "own" if self.own else self.task

    def folder(self) -> Path:
        """Where the tasks are written; of an own task, the name of its file."""
        return Path(self.out or self.workdir / "tasks" / (self.own.stem if self.own else self.task))

    def pay(self) -> int:
        """Cents for a unit; on Prolific minor units of `currency` for a bundle."""
        if self.reward is not None:
            return self.reward
        if self.backend == "prolific":
            return self.hourly_pay(PROLIFIC_ADVISED)
        return PAPER_REWARDS.get(self.task, 10)

    def bundle_minutes(self) -> int:
        """Estimated minutes of a bundle, rounded up (prolific)."""
        seconds = self.seconds or ASSUMED_SECONDS.get(self.task_name, ASSUMED_SECONDS["retrieve"])
        return max(1, math.ceil(round(self.per_submission * seconds / 60, 9)))

    def hourly_pay(self, hourly: Mapping[str, int]) -> int:
        """The least reward for a bundle that pays an amount `hourly`, given by currency."""
        return -(-hourly.get(self.currency, 0) * self.bundle_minutes() // 60)

    def offer(self, found: Sequence[int], size: int) -> Offer:
        """What a study on Prolific offers, given the units of work that each person finds, of `size` that they could do."""
        places = len(found)
        short = sum(count < size for count in found)
        total = places * self.pay()
        return Offer(places, self.bundle_minutes(), self.pay(), self.currency, total, short, min(found, default=0))

    def key(self) -> dict[str, object]:
        """The options that decide the result, besides the protocol, for this task and backend."""
        names = {"tag": ("raters", "labels"), "entail": ("raters",), "own": ("raters",), "repeat": ("fraction",)}
        of_backend = {
            "label-studio": "image_base",
            "prolific": "title reward seconds server per_submission currency devices approved countries",
        }
        chosen = (*names.get(self.task_name, ()), *of_backend.get(self.backend, "").split())
        return {"task": self.task_name, **{name: getattr(self, name) for name in chosen}}


@dataclass(frozen=True)
class ExportTasksReport(VerbReport):
    """Report of `export-tasks`.

    Attributes:
        tasks: the folder. up_to_date: nothing was to do. files: of the backend, relative to the folder.
        units: pieces of work. votes: answers wanted at most, without checks. checks: units that test the worker.
        launched: studies that are on the platform, drafts included. notes: one sentence each.
        offer: what the study on Prolific offers.
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
    offer: Offer | None = None


def listed(words: str) -> tuple[str, ...]:
    """The words of an option that takes several, with commas between them."""
    return tuple(word.strip() for word in words.split(",") if word.strip())


@dataclass(frozen=True)
class ImportAnswers(Options):
    """Options of `ctxr import-answers`."""

    COMMAND: ClassVar[str] = "import-answers"
    ARGUMENT: ClassVar[str] = "file"
    FOLDER: ClassVar[str] = JUDGMENTS

    file: Path | None = None
    """File exported from the platform; without one, answers are fetched (prolific) or read from the journal (local)."""
    platform_of: Annotated[str, Choices(BACKENDS)] = "local"
    """Platform of the answers: local, prolific, label-studio."""
    out: Path | None = None
    """Folder to write; default: `judgments` in the workdir."""
    workdir: Workdir = Path("work")
    tasks: str = ""
    """Folder of `tasks` that the file answers; default: all that were exported for that platform."""
    database: str = ""
    """Database of `ctxr serve`, if it is not the file in the workdir (local, prolific)."""

    def rules(self) -> Iterator[tuple[str, str]]:
        """Where the answers of each platform are."""
        platform = self.platform_of
        if self.file is not None and not self.file.exists():
            yield f"{self.file} does not exist", "name the file and its platform: FILE --from label-studio, …"
        if self.file is None and platform == "label-studio":
            yield f"answers of {platform} are in a file", f"ctxr import-answers FILE --from {platform}"
        if self.file is not None and platform == "local":
            hint = "leave the file out, or name its platform: --from label-studio, …"
            yield "answers of our own server are in its journal, not in a file", hint


@dataclass(frozen=True)
class ImportAnswersReport(VerbReport):
    """Report of `import-answers`.

    Attributes:
        judgments: the folder. platform: where the answers are from. up_to_date: nothing changed.
        new: answers taken. again: those that were there already. refused: those that were not taken; reasons: how many by code.
        counts: the manifest's. unanswered: exported units without any answer.
        unconfirmed: what is said of answers that Prolific does not confirm; empty without any.
    """

    judgments: Path
    platform: str
    up_to_date: bool
    new: int
    again: int
    refused: int
    reasons: dict[str, int]
    counts: dict[str, int]
    unanswered: int
    unconfirmed: str = ""
