"""The state of a project after any command; nothing is loaded for it that opens a journal or an artifact."""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ctxr.annotation.waiting import waiting
from ctxr.datasets.decisions import decisions_key, read_decisions
from ctxr.engine.project import CHAIN, DOCUMENTS
from ctxr.engine.state import DECISIONS, ProjectState, read_state
from ctxr.errors import CtxrError


def project_state(workdir: Path, touched: Collection[Path] = ()) -> ProjectState:
    """The state of a project with what people still have to answer, and the artifacts that a command has just `touched`: where they lie
    elsewhere under the name that they have in a project, of that project."""
    for path in touched:
        if path.name in (*CHAIN, DOCUMENTS) and not path.resolve().is_relative_to(workdir.resolve()):
            workdir = path.parent
    still, answered = waiting(workdir)
    state = replace(read_state(workdir, touched), open=still, answered=answered)
    with suppress(CtxrError, OSError):  # of a log that cannot be read, nothing is known
        if (file := workdir / DECISIONS).is_file():
            rows = read_decisions(file, "reject")
            made = [one.artifact.manifest.config.get("drop") for one in state.finished.values() if one.artifact]
            return replace(state, rejections=0 if decisions_key(rows) in made else len(rows))
    return state
