"""`ctxr search`: index a gallery, and print the pictures that fit, or open a page to find them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import msgspec
import numpy as np

from ctxr.datasets.open import read_dataset
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.stage import execute
from ctxr.errors import DataError, UsageError
from ctxr.pipelines.finding.config import Asked, RunningSearch, Search, SearchReport
from ctxr.pipelines.finding.finder import Finder
from ctxr.pipelines.finding.index import IndexStage, folder_of
from ctxr.store.artifacts import open_artifact
from ctxr.store.records import TimedWord, Trace


def run(
    config: Search, progress: Progress = SILENT, opened: Callable[[RunningSearch], None] = lambda _: None
) -> SearchReport:
    """Print what fits, or answer at a page until interrupted; `opened` is called once the page can be opened.

    Raises UsageError for wrong options, a port in use and what is no gallery; DataError for one without pictures.
    """
    stage = IndexStage(config)
    result = execute(stage, progress)
    index, inputs = open_artifact(config.folder()), stage.inputs(SILENT)
    with progress.task("opening the model", None):
        finder = Finder(config, folder_of(inputs.source), inputs.by, progress)
    lost, by = tuple(index.manifest.counts["left_out"]), str(index.manifest.config["by"])
    report = SearchReport(config.folder(), len(finder.pictures), lost, by, result.up_to_date)
    if config.text or config.recorded is not None:
        answer = finder.find(recorded(config.recorded) if config.recorded else said(config.text), config.count)
        if answer.says:
            raise UsageError(answer.says, hint="ctxr search --help")
        return replace(report, answer=answer)
    return report


def said(text: str) -> Asked:
    """A text as a query."""
    return Asked([TimedWord(text, 0, 0)])


def recorded(file: Path) -> Asked:
    """The first narrative of a file as a query. Raises DataError where there is none."""
    traces = cast("Sequence[Trace]", read_dataset(file).payloads.get("traces", ()))
    if not traces:
        raise DataError(f"{file} holds no narrative", hint="name a file in the format of Localized Narratives")
    strokes = [np.array(stroke, np.float64).round(5).reshape(-1, 3).tolist() for stroke in traces[0].strokes]
    return msgspec.convert({"words": traces[0].words, "strokes": strokes}, Asked)
