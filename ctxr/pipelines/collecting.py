"""Judgments as they are now: what the local server has collected is imported first."""

from pathlib import Path

from ctxr.pipelines.standing import is_there
from ctxr.pipelines.talk import Talk
from ctxr.pipelines.tasks_artifact import JUDGMENTS


def collected(workdir: Path, talk: Talk, database: str = "") -> Path:
    """The project's judgments, after importing the answers in its journal, if there is one.

    Raises whatever `ctxr import-answers` raises; without a journal nothing is imported, and the artifact may not be there.
    """
    if is_there(workdir, database):
        from ctxr.pipelines.import_answers import ImportAnswers, run

        run(ImportAnswers(workdir=workdir, database=database), talk)
    return workdir / JUDGMENTS
