"""The revised labels of a project: what they are made from, and rounds that are undone or redone."""

from msgspec import structs

from ctxr.datasets.rounds import (
    Base,
    Rounds,
    base_of,
    open_base,
    read_rounds,
    refuse_changed_rounds,
    refuse_other_base,
    to_switch,
)
from ctxr.engine.progress import Progress
from ctxr.engine.project import SETS, chosen
from ctxr.engine.stage import execute
from ctxr.errors import UnfinishedError, UsageError
from ctxr.pipelines.revision.config import ReviseLabels, ReviseReport
from ctxr.store.artifacts import MANIFEST


def switch_round(config: ReviseLabels, progress: Progress) -> ReviseReport:
    """Undo or redo a round. Raises UnfinishedError where nothing was revised."""
    out = config.folder()
    if not read_rounds(out):
        raise UnfinishedError(f"{out} holds no round", hint=config.followup("--entail"))
    base = open_project(config, progress)
    number = switch(config, base, config.round, active=config.redo)
    rounds = read_rounds(out)
    switched = rounds[number - 1]
    facts = {
        "revised": out,
        "round": number,
        "judgments": f"{switched.added:,} pairs {'count again' if switched.active else 'no longer count'}",
        "active": ", ".join(str(one.number) for one in rounds if one.active) or "none",
        "reverse": config.followup(f"--{'undo' if switched.active else 'redo'}", "--round", str(number)),
    }
    return ReviseReport(out, "redone" if switched.active else "undone", number, facts)


def switch(config: ReviseLabels, base: Base, number: int, active: bool) -> int:
    """Undo or redo a round, whose number is returned; none of its files is deleted. Raises what `to_switch` raises."""
    rounds = read_rounds(config.folder())
    number = to_switch(rounds, number, active, config.followup).number
    rounds[number - 1] = structs.replace(rounds[number - 1], active=active)
    execute(Rounds(config, config.folder(), base, rounds))
    return number


def open_project(config: ReviseLabels, progress: Progress) -> Base:
    """The dataset that `config` names, or that was revised before, or the project's. A round whose activation was
    interrupted is completed or dropped. Raises DataError where a file of the rounds was changed since it was written."""
    out = config.folder()
    refuse_changed_rounds(out)
    before = base_of(out)
    if config.dataset is None and before is not None and not before.exists():
        raise UsageError(
            f"{before}, the dataset that {out} revises, no longer exists",
            hint="ctxr revise-labels DATASET names its new folder",
        )
    try:
        path = config.dataset or before or chosen(None, config.workdir, ("dataset",), progress)
    except UnfinishedError as error:
        hint = f"{config.followup('PHOTOS')}   (PHOTOS: a folder of photos with captions, or a release such as COCO captions)"
        if any((config.workdir / name).is_dir() for name in (*SETS, "dataset")):
            hint = f"{error.hint.partition('   ')[0]}; or {hint}"
        raise UnfinishedError(error.message, hint=hint) from error
    base = open_base(path)
    refuse_other_base(out, base)
    if (rounds := read_rounds(out)) and not (out / MANIFEST).is_file():
        execute(Rounds(config, out, base, rounds))
    return base
