"""Tasks on the disk without the dataset and the options that `ctxr export-tasks` makes them from, for tests, benchmarks and pictures."""

from pathlib import Path
from typing import Any

from ctxr.annotation.artifacts import TaskBatch, tasks_key, write_task_tables
from ctxr.annotation.protocol import Protocol
from ctxr.store.artifacts import finish
from ctxr.store.kinds import TASKS


def write_tasks(path: Path, batch: TaskBatch, protocol: Protocol, backend: str = "local", **config: Any) -> None:
    """Write an artifact of kind `tasks` into the folder `path`."""
    content = write_task_tables(path, batch)
    key = {**config, **tasks_key(path, batch.root, protocol, backend)}
    finish(path, kind=TASKS, verb="export-tasks", config=key, parents=batch.parents, content=content)
