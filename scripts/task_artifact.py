"""Tasks and judgments on the disk without what `ctxr export-tasks` and `import-answers` make them from, for tests, benchmarks and
pictures."""

from pathlib import Path
from typing import Any

from ctxr.annotation.artifacts import AggregatedAnswers, TaskBatch, write_judgment_tables, write_task_tables
from ctxr.annotation.protocol import Protocol
from ctxr.store.artifacts import finish
from ctxr.store.kinds import JUDGMENTS, TASKS


def write_tasks(path: Path, batch: TaskBatch, protocol: Protocol, backend: str = "local", **config: Any) -> None:
    """Write an artifact of kind `tasks` into the folder `path`."""
    content = write_task_tables(path, batch, path)
    key = {**config, "seed": protocol.seed, "backend": backend, "protocol": protocol.key()}
    finish(path, kind=TASKS, verb="export-tasks", config=key, parents=(), content=content)


def write_judgments(path: Path, answered: AggregatedAnswers) -> None:
    """Write an artifact of kind `judgments` into the folder `path`."""
    content = write_judgment_tables(path, answered, path)
    finish(path, kind=JUDGMENTS, verb="import-answers", config={}, parents=(), content=content)
