"""Which units somebody has seen already: those must stay as they are when tasks are exported again."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ctxr.annotation.records import Unit
from ctxr.data.artifacts import MANIFEST
from ctxr.errors import UsageError
from ctxr.pipelines.standing import is_there, opened
from ctxr.pipelines.tasks_artifact import JUDGMENTS, Tasks, read_judgments, read_tasks

HITS = {False: "hits-sandbox.jsonl", True: "hits.jsonl"}
"""Files of the folder `mturk` that say which HITs are there, in the sandbox and for paid work."""


def refuse_changes(workdir: Path, out: Path, units: Iterable[Unit], settings: Mapping[str, Any]) -> None:
    """Raises UsageError where tasks that were answered, leased or launched would change or go. New ones may come."""
    if not (out / MANIFEST).is_file():
        return
    old = read_tasks(out)
    seen = _seen(workdir, old)
    mine = [unit for unit in old.units if unit.id in seen]
    if not mine:
        return
    new = {unit.id: unit for unit in units}
    hint = "--force replaces them all the same; --out names another folder for another question"
    if differing := sorted(name for name in {*old.config, *settings} if old.config.get(name) != settings.get(name)):
        raise UsageError(
            f"{len(mine)} tasks of {out} were answered or handed out, with another {differing[0]}", hint=hint
        )
    changed = next((unit.id for unit in mine if new.get(unit.id) != unit), None)
    if changed is not None:
        raise UsageError(f"{out}: the unit {changed!r} was answered or handed out, and would change", hint=hint)


def _seen(workdir: Path, old: Tasks) -> set[str]:
    found: set[str] = set()
    if (workdir / JUDGMENTS / MANIFEST).is_file():
        found |= {answer.unit for answer in read_judgments(workdir / JUDGMENTS).answers}
    if old.backend == "mturk":
        from ctxr.annotation.backends.mturk_client import read_launched

        found |= {unit for name in HITS.values() for unit in read_launched(old.path / "mturk" / name)}
    if is_there(workdir):
        with opened(workdir) as journal:
            found |= {answer.unit for answer in journal.answers()}
            held = {task for task, progress in journal.progress().items() if progress.leases}
        found |= {unit.id for unit in old.units if unit.task in held}
    return found
