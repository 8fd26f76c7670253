"""`ctxr export-tasks`: write the tasks for our own server or for a crowdsourcing platform, and launch them there."""

from pathlib import Path

from ctxr.annotation.artifacts import TaskBatch, tasks_key, write_task_tables
from ctxr.annotation.config import ExportTasks, ExportTasksReport
from ctxr.annotation.frozen_units import require_consistent, require_unchanged, with_seen
from ctxr.annotation.launch import backend_files, launch, study_offer
from ctxr.annotation.task_batch import ask
from ctxr.annotation.tasks import task_of
from ctxr.datasets.rounds import sample_of
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.stage import Inputs, Stage, execute
from ctxr.errors import UsageError
from ctxr.store.artifacts import Content, require_ours
from ctxr.store.kinds import SERVED, TASKS


class TaskStage(Stage):
    """Units of work and the files of a backend."""

    KIND = TASKS
    STAGED = True
    options: ExportTasks
    batch: TaskBatch

    def inputs(self, progress: Progress) -> Inputs:
        """The units, and those of an earlier round that somebody has seen."""
        config, out = self.options, self.out()
        self.batch = ask(config, progress)
        talk = next((unit.task for unit in self.batch.units if task_of(unit).SEATS > 1), None)
        if talk is not None and config.backend not in SERVED:
            raise UsageError(
                f"{config.backend} cannot connect two workers, so {talk} cannot be exported to it",
                hint=f"ctxr export-tasks {talk} --backend local, and ctxr serve",
            )
        asked_again = config.task == "entail" and not config.force and sample_of(config.workdir, config.candidates)[1]
        if asked_again or (config.task == "retrieve" and config.input is None):  # a writer may have been blocked since
            self.batch = with_seen(config.workdir, out, self.batch)
        key = tasks_key(out, self.batch.root, config.protocol(), config.backend)
        return Inputs(self.batch.parents, key=key)

    def require_free(self, out: Path) -> None:
        """Raises UsageError where answered tasks would change, or other tasks of the project have the same units."""
        config = self.options
        require_ours(out)
        if not config.force:
            settings = config.key() | tasks_key(out, self.batch.root, config.protocol(), config.backend)
            require_unchanged(config.workdir, out, self.batch.units, settings)
        require_consistent(config.workdir, out, self.batch, config.protocol(), config.backend)

    def write(self, inputs: Inputs, out: Path, progress: Progress) -> Content:
        """Write the tables and the files of the backend."""
        written = backend_files(self.options, self.batch)
        for name, content in written.items():
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).write_bytes(content)
        return write_task_tables(out, self.batch, sorted(written))


def run(config: ExportTasks, progress: Progress = SILENT) -> ExportTasksReport:
    """Write the tasks, and launch them on their platform with `launch`.

    Raises UsageError for wrong arguments, for a backend that cannot do the task, where answered tasks would change, and where
    other tasks of the project have the same units with other options; UnfinishedError without the artifact that the task is
    made from; CtxrError for what a platform refuses.
    """
    stage = TaskStage(config)
    result, out, units = execute(stage, progress), config.folder(), stage.batch.units
    launched, notes = launch(config, progress) if config.launch else (0, [])
    work = [unit for unit in units if unit.purpose == "work"]
    return ExportTasksReport(
        out,
        config.task,
        config.backend,
        result.up_to_date,
        len(work),
        sum(unit.most for unit in work),
        len(units) - len(work),
        sorted(path.relative_to(out).as_posix() for path in (out / config.backend).rglob("*") if path.is_file()),
        launched,
        notes,
        study_offer(config) if config.backend == "prolific" else None,
    )
