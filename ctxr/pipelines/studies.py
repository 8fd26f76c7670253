"""The Prolific studies whose people a server lets in: what each was exported with, and its completion codes."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

import msgspec

from ctxr.annotation.backends.prolific import PLATFORM, Bundle
from ctxr.annotation.web import Study
from ctxr.data.tables import read_table
from ctxr.errors import UsageError
from ctxr.pipelines.launching import codes_file
from ctxr.pipelines.tasks_artifact import Tasks


def studies_of(
    everything: Sequence[Tasks], named: Mapping[str, str], private: Path, served: Sequence[str], bundle: int
) -> dict[str, Study]:
    """Studies by the name in their address: those that were exported, and those `named`, with a code, that were made by hand.

    Args:
        private: the crowd's private folder. served: tasks that are served, all where empty. bundle: answers that a study made
            by hand pays for.

    Raises UsageError for a name that cannot stand in an address, and for one whose completion code nobody knows.
    """
    studies = {}
    for tasks in everything:
        given = tuple(sorted({unit.task for unit in tasks.units}))
        if tasks.backend == PLATFORM and (not served or set(given) <= set(served)):
            studies[tasks.name] = _exported(tasks, given, private)
    for name, code in named.items():
        if not name.replace("-", "").replace("_", "").isalnum():
            raise UsageError(f"--prolific {name!r} cannot stand in an address", hint="letters, digits, - and _")
        if code:
            codes: Callable[[], Mapping[str, str]] = partial(dict, COMPLETED=code)
            known = studies.get(name)
            studies[name] = Study(codes, known.bundle, known.tasks, known.lasts) if known else Study(codes, bundle)
        elif name not in studies:
            raise UsageError(
                f"--prolific {name}: this study was not exported here, and nobody knows its completion code",
                hint=f"--prolific {name}=CODE, as Prolific shows it",
            )
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
