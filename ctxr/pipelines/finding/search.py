"""`ctxr search`: index a gallery, and print the pictures that fit, or open a page to find them."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from secrets import token_urlsafe

import numpy as np

from ctxr.datasets.open import read_dataset
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.stage import execute
from ctxr.errors import DataError, UsageError
from ctxr.pipelines.finding.config import RunningSearch, Search, SearchQuery, SearchReport
from ctxr.pipelines.finding.finder import Finder
from ctxr.pipelines.finding.index import IndexStage, gallery_folder
from ctxr.pipelines.finding.page import SearchSite, make_page
from ctxr.store.records import Record, TimedWord, Trace
from ctxr.web.server import LOCAL, address_of, answer_requests, listening_socket


def run(
    config: Search, progress: Progress = SILENT, opened: Callable[[RunningSearch], None] = lambda _: None
) -> SearchReport:
    """Print what fits, or answer at a page until interrupted; `opened` is called once the page can be opened.

    Raises UsageError for wrong options, a port in use and what is no gallery; DataError for one without pictures.
    """
    config.check()
    query, host = None, config.host or LOCAL[0]
    if config.recorded is not None:
        query = narrative_query(config.recorded)
    elif config.text is not None:
        query = SearchQuery([TimedWord(config.text, 0, 0)])
    elif host not in LOCAL:
        progress.warn("the link and all pictures are sent unencrypted: put an https proxy in front")
    stage = IndexStage(config)
    with ExitStack() as opening:
        # before what takes long: a port may be in use
        listening = None if query else opening.enter_context(listening_socket(host, config.port))
        up_to_date = execute(stage, progress).up_to_date
        for chunk in stage.chunks:  # as large as the index, which holds what they hold
            Path(chunk).unlink(missing_ok=True)
        inputs = stage.resolved[-1]
        with progress.task("opening the model", None):
            finder = Finder(config, gallery_folder(inputs.source), inputs.by, progress)
        report = SearchReport(config.folder(), len(finder.pictures), finder.left_out, finder.by, up_to_date)
        if listening is None:
            answer = finder.find(query or SearchQuery(), config.count)
            if answer.says:
                raise UsageError(answer.says, hint="ctxr search opens a page to say and to draw it")
            return replace(report, answer=answer)
        token = token_urlsafe(16) if config.host else ""
        link = f"{address_of(listening, host)}/{f'?token={token}' if token else ''}"
        opened(RunningSearch(link, report.pictures, report.by))
        narratives = config.workdir / "narratives" / config.called if config.collect else None
        page = make_page(finder, SearchSite(finder.gallery, finder.by, token, narratives))
        answer_requests(page, listening, lambda: None, progress.warn, behind_proxy=False)
    return replace(report, narratives=narratives)


def narrative_query(file: Path) -> SearchQuery:
    """The first narrative of a file as a query. Raises DataError where there is none."""
    traces: Sequence[Record] = ()
    with suppress(UsageError):
        traces = read_dataset(file).payloads.get("traces", ())
    if not traces or not isinstance(first := traces[0], Trace):
        what = "holds no narrative" if file.exists() else "does not exist"
        raise DataError(f"{file} {what}", hint="name a file in the format of Localized Narratives")
    strokes = [np.array(stroke, np.float64).round(5).reshape(-1, 3).tolist() for stroke in first.strokes]
    return SearchQuery(list(first.words), [[(x, y, t) for x, y, t in points] for points in strokes])
