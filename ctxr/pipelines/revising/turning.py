"""Rounds taken back, and put in force again."""

from ctxr.data.artifacts import locked
from ctxr.errors import UnfinishedError
from ctxr.pipelines.revise_labels import ReviseLabels, ReviseReport
from ctxr.pipelines.revising.rounds import read_rounds, turn
from ctxr.pipelines.revising.work import open_project
from ctxr.pipelines.talk import Talk


def turn_round(config: ReviseLabels, talk: Talk) -> ReviseReport:
    """Take a round back, or put one in force again. Raises UnfinishedError where nothing was revised."""
    out = config.folder()
    if not read_rounds(out):
        raise UnfinishedError(f"{out} holds no round", hint=config.again("--entail"))
    base = open_project(config, talk)
    with locked(out):
        turned = turn(out, base, config.round, active=config.redo, again=config.again)
    rounds = read_rounds(out)
    facts = {
        "revised": out,
        "round": turned.number,
        "judgments": f"{turned.added:,} links {'count again' if turned.active else 'do not count any more'}",
        "in force": ", ".join(str(one.number) for one in rounds if one.active) or "none",
        "the other way": config.again(f"--{'undo' if turned.active else 'redo'}", "--round", str(turned.number)),
    }
    return ReviseReport(out, "in force again" if turned.active else "taken back", turned.number, facts)
