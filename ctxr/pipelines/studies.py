"""The Prolific studies whose people a server lets in: what each was exported with, and its completion codes."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

import msgspec

from ctxr.annotation.backends.prolific import PLATFORM, Bundle
from ctxr.annotation.web.site import Study
from ctxr.data.tables import read_table
from ctxr.pipelines.launching import codes_file
from ctxr.pipelines.tasks_artifact import Tasks


def studies_of(everything: Sequence[Tasks], private: Path, served: Sequence[str]) -> dict[str, Study]:
    """The exported studies, by the name in their address.

    Args:
        private: the crowd's private folder. served: tasks that are served, all where empty.
    """
    studies = {}
    for tasks in everything:
        given = tuple(sorted({unit.task for unit in tasks.units}))
        if tasks.backend == PLATFORM and (not served or set(given) <= set(served)):
            studies[tasks.name] = _exported(tasks, given, private)
    return studies


def _exported(tasks: Tasks, given: tuple[str, ...], private: Path) -> Study:
    folder = tasks.path / PLATFORM
    parts = read_table(folder / "bundles.jsonl", Bundle)
    minutes = msgspec.json.decode((folder / "study.json").read_bytes())["maximum_allowed_time"]
    return Study(
        partial(_codes, codes_file(private, tasks.name)),
        max(len(part.units) for part in parts),
        given,
        timedelta(minutes=minutes),
    )


def _codes(file: Path) -> dict[str, str]:
    """What `--launch` told Prolific; nothing before that."""
    return msgspec.json.decode(file.read_bytes(), type=dict[str, str]) if file.is_file() else {}
