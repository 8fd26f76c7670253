"""`ctxr export-tasks`: what the crowd is asked, for our own server or for a platform that brings people."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxr.annotation.protocol import Protocol
from ctxr.annotation.records import TaskName
from ctxr.errors import UsageError
from ctxr.pipelines.inputs import refuse_seed
from ctxr.pipelines.talk import Silent, Talk

if TYPE_CHECKING:
    from ctxr.annotation.backends.mturk import Offer
    from ctxr.annotation.backends.prolific import StudyOffer
    from ctxr.pipelines.tasks_artifact import TaskBatch

TASK_NAMES: tuple[TaskName, ...] = ("describe", "retrieve", "dialogue", "verify", "tag", "entail", "audit")

BACKENDS = ("local", "mturk", "prolific", "label-studio")

PAPER_REWARDS = {"describe": 25}
"""Cents (ImageCoDe, section 3); a retrieval and all else 10."""

_ON_THE_WEB = ("mturk", "label-studio")


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
        from ctxr.annotation.tasks.tag import NOTES

        return _listed(self.labels) or tuple(NOTES)

    def unit_seconds(self) -> float:
        """Time that a unit takes."""
        from ctxr.annotation.cost import ASSUMED_SECONDS

        return self.seconds or ASSUMED_SECONDS.get(self.task, ASSUMED_SECONDS["retrieve"])

    def offer(self) -> "Offer":
        """How HITs are offered. Raises UsageError for what Mechanical Turk would refuse."""
        from ctxr.annotation.backends.mturk import Offer

        reward = PAPER_REWARDS.get(self.task, 10) if self.reward is None else self.reward
        required, excluded = _listed(self.require), _listed(self.exclude)
        countries = _listed(self.countries)
        return Offer(self.title, reward, self.minutes, self.days, self.approved, countries, required, excluded).check()

    def study(self) -> "StudyOffer":
        """How the study is offered. Raises UsageError for pay below Prolific's floor."""
        from ctxr.annotation.backends.prolific import StudyOffer

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


def run(config: ExportTasks, talk: Talk | None = None) -> ExportTasksReport:
    """Write what is asked, and with `launch` send it.

    Raises UsageError for wrong arguments, for a backend that cannot do the task, where answered tasks would change, and where
    other tasks of the project have the same units otherwise;
    UnfinishedError without the artifact that the task is made from; CtxrError for what a platform refuses.
    """
    from ctxr.annotation.backends.sheets import refuse_talks
    from ctxr.data.artifacts import finished, refuse_strangers
    from ctxr.pipelines.asking import ask
    from ctxr.pipelines.launching import launch
    from ctxr.pipelines.revising.rounds import sample_of
    from ctxr.pipelines.tasks_artifact import TASKS, tasks_config
    from ctxr.pipelines.touched import refuse_changes, with_seen

    talk = talk or Silent()
    _check(config)
    asked = ask(config, talk)
    if config.backend not in ("local", "prolific"):
        refuse_talks(asked.units, config.backend)
    out = config.folder()
    if config.task == "entail" and not config.force and sample_of(config.workdir, config.candidates)[1] is not None:
        asked = with_seen(config.workdir, out, asked)
    refuse_strangers(out)
    settings = tasks_config(out, asked.root, config.protocol(), config.backend, config.result_config())
    ready = finished(out, TASKS, "export-tasks", settings, asked.parents)
    up_to_date = ready is not None and not ready.changed_files()
    if not up_to_date:
        if not config.force:
            refuse_changes(config.workdir, out, asked.units, settings)
        _write(config, asked)
    launched, notes = launch(config, talk) if config.launch else (0, [])
    work = [unit for unit in asked.units if unit.purpose == "work"]
    return ExportTasksReport(
        out,
        config.task,
        config.backend,
        up_to_date,
        len(work),
        sum(unit.most for unit in work),
        len(asked.units) - len(work),
        sorted(path.relative_to(out).as_posix() for path in (out / config.backend).rglob("*") if path.is_file()),
        launched,
        notes,
    )


def _write(config: ExportTasks, asked: "TaskBatch") -> None:
    from ctxr.data.artifacts import locked
    from ctxr.pipelines.backend_files import backend_files
    from ctxr.pipelines.exporting.place import making
    from ctxr.pipelines.tasks_artifact import write_tasks
    from ctxr.pipelines.touched import refuse_twins

    out, protocol = config.folder(), config.protocol()
    refuse_twins(config.workdir, out, asked, protocol, config.backend)
    written = backend_files(config, asked)
    with locked(out), making(out) as folder:
        for name, content in written.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        write_tasks(folder, asked, protocol, config.backend, config.result_config(), sorted(written), home=out)


def _check(config: ExportTasks) -> None:
    from difflib import get_close_matches

    for given, known, what in ((config.task, TASK_NAMES, "task"), (config.backend, BACKENDS, "backend")):
        if given not in known:
            near = get_close_matches(given, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(known)}"
            raise UsageError(f"{given!r} is no {what}" if given else f"which {what}?", hint=hint)
    config.protocol()
    refuse_seed(config.seed)
    if not 0 < config.fraction <= 1:
        raise UsageError(f"--fraction {config.fraction} is out of range", hint="it is a share above 0, at most 1")
    if config.raters < 0 or config.seconds < 0 or config.minutes < 1 or config.days < 1:
        raise UsageError("--votes, --seconds, --minutes and --days cannot be negative", hint="leave them out")
    if config.backend in _ON_THE_WEB and not config.image_base:
        raise UsageError(
            f"{config.backend} shows pictures from the web, and needs to know where they are",
            hint="--image-base https://…, below which the pictures of the project can be reached",
        )
    if config.backend == "mturk" and not config.image_base.startswith("https://"):
        raise UsageError(f"--image-base {config.image_base} is not https, and Mechanical Turk shows nothing else")
    if config.raters and config.task == "verify":
        raise UsageError(
            "--votes is not for verify, whose votes belong to the protocol of the talks",
            hint=f"--verify-votes {config.raters}, here and with export-tasks dialogue",
        )
    if config.launch and config.backend not in ("mturk", "prolific"):
        raise UsageError(f"--launch does nothing with {config.backend}", hint="--backend mturk or prolific")
    if config.live and not config.launch:
        raise UsageError("--live goes with --launch", hint="--launch --live")
    if config.backend == "mturk":
        config.offer()
    if config.backend == "prolific":
        config.study()


def _listed(words: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in words.split(",") if word.strip())
