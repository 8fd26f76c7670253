"""Units that an export must keep: somebody has seen them, or other tasks contain them."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ctxr.annotation.artifacts import TaskBatch, Tasks, read_judgments, read_tasks
from ctxr.annotation.launch import read_study
from ctxr.annotation.project_journal import project_journal
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.records import Answer, Unit
from ctxr.annotation.task_batch import merge_batches
from ctxr.annotation.unit_factory import derive_units
from ctxr.errors import UsageError
from ctxr.store.artifacts import MANIFEST
from ctxr.store.kinds import JUDGMENTS, TASKS
from ctxr.store.records import ImageSet


def require_unchanged(workdir: Path, out: Path, units: Iterable[Unit], settings: Mapping[str, Any]) -> None:
    """Raises UsageError where tasks that were answered or handed out, or those for another backend, would change."""
    if not (out / MANIFEST).is_file():
        return
    old = read_tasks(out)
    if old.backend != settings["backend"]:
        raise UsageError(
            f"{out} holds tasks for {old.backend}, not for {settings['backend']}",
            hint="-o names another folder; --force replaces them",
        )
    seen = _seen(workdir, old)
    mine = [unit for unit in old.units if unit.id in seen]
    if not mine:
        return
    new = {unit.id: unit for unit in units}
    hint = "--force replaces them all the same; --out names another folder for another question"
    # the numbers of the protocol beside the other options
    flat = [{**config, **config["protocol"], "protocol": None} for config in (old.config, settings)]
    if differing := differences(*flat):
        name, before, now = differing[0]
        raise UsageError(
            f"{len(mine)} tasks of {out} were answered or handed out, with {name} {before} and not {now}", hint=hint
        )
    changed = next((unit.id for unit in mine if new.get(unit.id) != unit), None)
    if changed is not None:
        raise UsageError(f"{out}: the unit {changed!r} was answered or handed out, and would change", hint=hint)


def differences(old: Mapping[str, object], new: Mapping[str, object]) -> list[tuple[str, object, object]]:
    """Names under which two mappings differ, in order, with both values, None for a missing one."""
    names = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    return [(name, old.get(name), new.get(name)) for name in names]


def changes_to(other: Protocol, protocol: Protocol) -> str:
    """What to give to get the `other` protocol, as far as it differs."""
    found = {name: value for name, value, _ in differences(asdict(other), asdict(protocol))}
    seed = f"--seed {found.pop('seed')} " if "seed" in found else ""
    numbers = ", ".join(f"{name} = {value!r}" for name, value in found.items())
    return f"{seed}--protocol FILE, where {numbers}" if numbers else seed.strip()


def with_seen(workdir: Path, out: Path, batch: TaskBatch) -> TaskBatch:
    """The batch with those units in `out` that workers have opened: second looks continue from round to round."""
    if not (out / MANIFEST).is_file():
        return batch
    old = read_tasks(out)
    seen, new = _seen(workdir, old), {unit.id for unit in batch.units}
    kept = [unit for unit in old.units if unit.id in seen and unit.id not in new]
    if not kept:
        return batch
    shown = {name for unit in kept for name in unit.images}
    pictures = {name: image for name, image in old.images.items() if name in shown}
    return merge_batches([batch, TaskBatch(kept, old.sets, pictures, old.root)])


def require_consistent(workdir: Path, out: Path, batch: TaskBatch, protocol: Protocol, backend: str) -> None:
    """Raises UsageError where other tasks have a unit with other votes or seed, or our server would follow two protocols."""
    if out.resolve().parent != (workdir / TASKS).resolve():
        return
    judged = workdir / JUDGMENTS
    answers = read_judgments(judged).answers if (judged / MANIFEST).is_file() else ()
    mine = _all_units(batch.units, batch.sets, protocol, answers)
    for file in sorted((workdir / TASKS).glob(f"*/{MANIFEST}")):
        if file.parent.resolve() == out.resolve():
            continue
        other = read_tasks(file.parent)
        if {other.backend, backend} <= {"local", "prolific"} and other.protocol != protocol:
            raise UsageError(
                f"{other.path} was exported with another protocol, and one server cannot follow two",
                hint=f"{changes_to(other.protocol, protocol)}   (or another --workdir)",
            )
        theirs = _all_units(other.units, other.sets, other.protocol, answers)
        conflicts = sorted(name for name in mine.keys() & theirs.keys() if mine[name] != theirs[name])
        if conflicts:
            raise UsageError(
                f"the unit {conflicts[0]!r} is in {other.path} as well, or follows from it, with other votes or another seed",
                hint=f"give the options that {other.name} was exported with, or use another --workdir",
            )


def _all_units(
    units: Iterable[Unit], sets: Mapping[str, ImageSet], protocol: Protocol, answers: Iterable[Answer]
) -> dict[str, tuple[object, ...]]:
    """Units and their follow-ups, by id, with what decides their orders and votes."""
    decides = (protocol.seed, protocol.votes("train"), protocol.votes(None), protocol.full_share)
    named = {unit.id: unit for unit in units}
    for answer in answers:
        if (unit := named.get(answer.unit)) is not None:
            for derived in derive_units(unit, answer, sets[unit.image_set], protocol):
                named.setdefault(derived.id, derived)
    return {name: (unit, decides) for name, unit in named.items()}


def _seen(workdir: Path, old: Tasks) -> set[str]:
    seen: set[str] = set()
    if (workdir / JUDGMENTS / MANIFEST).is_file():
        seen |= {answer.unit for answer in read_judgments(workdir / JUDGMENTS).answers}
    if read_study(old.path) is not None:
        seen |= {unit.id for unit in old.units}
    with project_journal(workdir) as journal:
        if journal is not None:
            seen |= {answer.unit for answer in journal.answers()}
            leased = {task for task, progress in journal.progress().items() if progress.leases}
            seen |= {unit.id for unit in old.units if unit.task in leased}
    return seen
