"""`ctxr export-tasks`: write the tasks for our own server or for a crowdsourcing platform, and launch them there."""

from pathlib import Path

from ctxr.annotation.artifacts import write_task_tables
from ctxr.annotation.config import ExportTasks, ExportTasksReport
from ctxr.annotation.frozen_units import require_consistent, require_unchanged, with_seen
from ctxr.annotation.launch import backend_files, launch, study_offer
from ctxr.annotation.task_batch import TaskSources, ask, sources_of
from ctxr.annotation.tasks import task_of
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.stage import SourceInputs, Stage, execute
from ctxr.errors import UsageError, plural
from ctxr.store.artifacts import Content, open_artifact
from ctxr.store.kinds import SERVED, TASKS


class TaskStage(Stage[SourceInputs[TaskSources]]):
    """Units of work and the files of a backend."""

    KIND = TASKS
    options: ExportTasks

    def inputs(self, progress: Progress) -> SourceInputs[TaskSources]:
        """The sources, by content."""
        config = self.options
        sources = sources_of(config, progress)
        key = config.key() | {"seed": config.seed, "backend": config.backend, "protocol": config.protocol().key()}
        return SourceInputs(sources.parents, key, sources)

    def write(self, inputs: SourceInputs[TaskSources], out: Path, progress: Progress) -> Content:
        """Write the units, those of an earlier round that were seen, and the files of the backend.

        Raises UsageError for a backend that cannot do the task, where answered tasks would change, or other tasks of the project have
        the same units.
        """
        config, place, sources = self.options, self.out(), inputs.source
        batch = ask(config, sources, progress)
        talk = next((unit.task for unit in batch.units if task_of(unit).SEATS > 1), None)
        if talk is not None and config.backend not in SERVED:
            raise UsageError(
                f"{config.backend} cannot connect two workers, so {talk} cannot be exported to it",
                hint=f"ctxr export-tasks {talk} --backend local, and ctxr serve",
            )
        # a writer may have been blocked since
        if (sources.revised and not config.force) or (config.task == "retrieve" and not sources.is_dataset):
            batch = with_seen(config.workdir, place, batch)
        if not config.force:
            require_unchanged(config.workdir, place, batch.units, inputs.key)
        require_consistent(config.workdir, place, batch, config.protocol(), config.backend)
        work = [unit.most for unit in batch.units if unit.purpose == "work"]
        counts = {"units": len(work), "answers": sum(work), "checks": len(batch.units) - len(work), "live": config.live}
        written = backend_files(config, batch, out, lambda offer: self.announce(progress, **counts, offer=offer))
        for name, content in written.items():
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).write_bytes(content)
        return write_task_tables(out, batch, place, sorted(written))


def run(config: ExportTasks, progress: Progress = SILENT) -> ExportTasksReport:
    """Write the tasks, and launch them on their platform with `launch`. Raises what `TaskStage.write` does, UnfinishedError without the
    artifact that the task is made from, and CtxrError for what a platform refuses."""
    up_to_date, out = execute(TaskStage(config), progress).up_to_date, config.folder()
    counts = open_artifact(out).manifest.counts
    notes = [launch(config)] if config.launch else []
    files = sorted(path.relative_to(out).as_posix() for path in (out / config.backend).rglob("*") if path.is_file())
    if config.backend == "label-studio":
        raters = len({file.split("/")[1].split("-")[1] for file in files})
        strangers = ", who has met none of the sets elsewhere" if config.task in ("describe", "retrieve") else ""
        notes.append(f"this takes {plural(raters, 'person', 'people')}: give each rater-N to another one{strangers}")
    offer = study_offer(out) if config.backend == "prolific" else None
    return ExportTasksReport(
        out, config.task, config.backend, up_to_date, counts["units"] - counts["checks"], counts["votes"], counts["checks"],
        files, int(config.launch), notes, offer,
    )  # fmt: skip
