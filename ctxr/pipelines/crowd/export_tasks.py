"""`ctxr export-tasks`: what the crowd is asked, for our own server or for a platform that brings people."""

from ctxr.annotation.artifacts import TASKS, TaskBatch, tasks_config, write_tasks
from ctxr.annotation.config import BACKENDS, TASK_NAMES, ExportTasks, ExportTasksReport
from ctxr.annotation.frozen_units import refuse_changes, refuse_twins, with_seen
from ctxr.annotation.launching import backend_files, launch
from ctxr.annotation.platforms.sheets import refuse_talks
from ctxr.annotation.task_batch import ask
from ctxr.datasets.rounds import sample_of
from ctxr.engine.progress import Progress, Silent
from ctxr.engine.project import refuse_seed
from ctxr.engine.staging import making
from ctxr.errors import UsageError
from ctxr.store.artifacts import finished, locked, require_ours

_ON_THE_WEB = ("mturk", "label-studio")


def run(config: ExportTasks, progress: Progress | None = None) -> ExportTasksReport:
    """Write what is asked, and with `launch` send it.

    Raises UsageError for wrong arguments, for a backend that cannot do the task, where answered tasks would change, and where
    other tasks of the project have the same units otherwise;
    UnfinishedError without the artifact that the task is made from; CtxrError for what a platform refuses.
    """
    progress = progress or Silent()
    _check(config)
    asked = ask(config, progress)
    if config.backend not in ("local", "prolific"):
        refuse_talks(asked.units, config.backend)
    out = config.folder()
    if config.task == "entail" and not config.force and sample_of(config.workdir, config.candidates)[1] is not None:
        asked = with_seen(config.workdir, out, asked)
    require_ours(out)
    settings = tasks_config(out, asked.root, config.protocol(), config.backend, config.result_config())
    ready = finished(out, TASKS, "export-tasks", settings, asked.parents)
    up_to_date = ready is not None and not ready.changed_files()
    if not up_to_date:
        if not config.force:
            refuse_changes(config.workdir, out, asked.units, settings)
        _write(config, asked)
    launched, notes = launch(config, progress) if config.launch else (0, [])
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
