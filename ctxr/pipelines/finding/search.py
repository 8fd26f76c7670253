"""`ctxr search`: index a gallery, and print the pictures that fit, or open a page to find them."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from secrets import token_urlsafe

import msgspec
import numpy as np

from ctxr.datasets.open import read_dataset
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.stage import execute
from ctxr.errors import DataError, UsageError
from ctxr.pipelines.finding.config import RunningSearch, Search, SearchQuery, SearchReport
from ctxr.pipelines.finding.finder import Finder
from ctxr.pipelines.finding.index import IndexStage, folder_of
from ctxr.pipelines.finding.page import SearchSite, make_page
from ctxr.store.artifacts import open_artifact
from ctxr.store.records import Record, TimedWord, Trace
from ctxr.web.server import LOCAL, address_of, answer_requests, listening_socket


def run(
    config: Search, progress: Progress = SILENT, opened: Callable[[RunningSearch], None] = lambda _: None
) -> SearchReport:
    """Print what fits, or answer at a page until interrupted; `opened` is called once the page can be opened.

    Raises UsageError for wrong options, a port in use and what is no gallery; DataError for one without pictures.
    """
    config.check()
    host = config.host or LOCAL[0]
    if config.text is not None or config.recorded is not None:
        query = recorded(config.recorded) if config.recorded is not None else said(config.text or "")
        finder, report = open_index(config, progress)
        answer = finder.find(query, config.count)
        if answer.says:
            raise UsageError(answer.says, hint="ctxr search opens a page to say and to draw it")
        return replace(report, answer=answer)
    if host not in LOCAL:
        progress.warn("the link and all pictures are sent unencrypted: put an https proxy in front")
    with listening_socket(host, config.port) as listening:
        finder, report = open_index(config, progress)
        token = token_urlsafe(16) if config.host else ""
        link = f"{address_of(listening, host)}/{f'?token={token}' if token else ''}"
        narratives = config.workdir / "narratives" / config.called if config.collect else None
        opened(RunningSearch(link, report.pictures, report.by))
        page = make_page(finder, SearchSite(finder.gallery, report.by, token, narratives))
        answer_requests(page, listening, lambda: None, progress.warn, behind_proxy=False)
    return replace(report, narratives=narratives)


def open_index(config: Search, progress: Progress) -> tuple[Finder, SearchReport]:
    """The index, made or added to where pictures are new, and what is reported of it."""
    stage = IndexStage(config)
    result = execute(stage, progress)
    inputs = stage.resolved[-1]
    for chunk in stage.chunks:  # as large as the index, which holds what they hold
        Path(chunk).unlink(missing_ok=True)
    with progress.task("opening the model", None):
        finder = Finder(config, folder_of(inputs.source), inputs.by, progress)
    manifest = open_artifact(config.folder()).manifest
    lost, by = tuple(manifest.counts["left_out"]), str(manifest.config["by"])
    return finder, SearchReport(config.folder(), len(finder.pictures), lost, by, result.up_to_date)


def said(text: str) -> SearchQuery:
    """A text as a query."""
    return SearchQuery([TimedWord(text, 0, 0)])


def recorded(file: Path) -> SearchQuery:
    """The first narrative of a file as a query. Raises DataError where there is none."""
    traces: Sequence[Record] = ()
    with suppress(UsageError):
        traces = read_dataset(file).payloads.get("traces", ())
    if not traces or not isinstance(first := traces[0], Trace):
        raise DataError(f"{file} holds no narrative", hint="name a file in the format of Localized Narratives")
    strokes = [np.array(stroke, np.float64).round(5).reshape(-1, 3).tolist() for stroke in first.strokes]
    return msgspec.convert({"words": first.words, "strokes": strokes}, SearchQuery)
