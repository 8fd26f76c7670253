"""`ctxr reproduce`: which published figures of papers follow from what lies here, cell by cell."""

import base64
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import distributions
from importlib.resources import files
from itertools import groupby
from pathlib import Path

from ctxr.datasets.open import identity_of
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.stage import Inputs, Stage, execute
from ctxr.models.tokens import PARSER
from ctxr.pipelines.inspection.cells import TABLE, Paper, compute, read_cells, verdict_on
from ctxr.pipelines.inspection.config import PAPERS, Cell, CellResult, Found, Reproduce, ReproduceReport
from ctxr.pipelines.inspection.measures import MEASURES, NotHere, Release, releases_in
from ctxr.problems.results import RESULTS, read_findings
from ctxr.store.artifacts import MANIFEST, Artifact, Content, Parent, open_artifact
from ctxr.store.atomic import write_bytes
from ctxr.store.hashing import sha256_file
from ctxr.store.kinds import EVALUATION, RELEASE, REPRODUCED, RUNS
from ctxr.store.tables import pretty_json, read_value
from ctxr.version import __version__
from ctxr.web.static import SHARED, environment

CELLS, PAGE, PAGES = "cells.json", "cells.html", "ctxr.pipelines.inspection.pages"


@dataclass(frozen=True)
class FiguresInputs(Inputs):
    """Releases by the hash of their content, and the evaluations of the project."""

    releases: Mapping[str, Release]
    evaluations: Sequence[Artifact]


class ReproduceStage(Stage[FiguresInputs]):
    """The verdicts on the cells of papers, and their page."""

    KIND = REPRODUCED
    options: Reproduce

    def inputs(self, progress: Progress) -> FiguresInputs:
        """Releases and evaluations by content, the table, and what parses English. Raises what `releases_in` raises."""
        data, papers = self.options.data, self.options.papers or PAPERS
        releases = {identity_of(one.files).sha256: one for one in (releases_in(data, papers) if data else ())}
        parents = [Parent(f"{one.paper}: {one.path.name}", RELEASE, content) for content, one in releases.items()]
        results = [open_artifact(file.parent) for file in sorted(self.options.workdir.glob(f"{RESULTS}/*/{MANIFEST}"))]
        evaluations = [one for one in results if one.manifest.kind == EVALUATION]
        parents += [Parent(f"{RESULTS}/{one.path.name}", EVALUATION, one.sha256) for one in evaluations]
        parsers = sorted(f"{one.name} {one.version}" for name in ("spacy", PARSER) for one in distributions(name=name))
        key = {"papers": papers, "table": sha256_file(TABLE), "parsers": parsers}
        return FiguresInputs(parents, key, releases, evaluations)

    def write(self, inputs: FiguresInputs, out: Path, progress: Progress) -> Content:
        """Look for each cell. Raises DataError for damaged releases and evaluations."""
        table = {name: paper for name, paper in read_cells(TABLE).items() if name in (self.options.papers or PAPERS)}
        names = [(paper, name) for paper, one in table.items() for name in one.cells]
        self.announce(progress, cells=len(names), releases=len(inputs.releases))
        search = FigureSearch(inputs, self.options.workdir)
        cells = [search.verdict(*one, table[one[0]]) for one in progress.each("looking for figures", names)]
        states = Counter(one.state for one in cells)
        derived = sum(
            one.state == "reproduced" and one.found is not None and one.found.by == "arithmetic" for one in cells
        )
        counts = {
            "figures": len(cells), "reproduced from data": states["reproduced"] - derived, "reproduced by arithmetic": derived,
            "off": states["off"], "need more": states["needs"], "doubtful": sum(bool(one.cell.doubtful) for one in cells),
        }  # fmt: skip
        titles = {name: paper.title for name, paper in table.items()}
        measured = [f"{one.paper}: {one.found.where}" for one in cells if one.found and one.found.by != "arithmetic"]
        report = ReproduceReport(out, False, titles, tuple(dict.fromkeys(measured)), tuple(cells), counts)
        write_bytes(out / CELLS, pretty_json(cells))
        write_bytes(out / PAGE, _page(report))
        return Content([CELLS, PAGE], {"cells": counts, "titles": titles, "releases": report.releases}, {})


def run(config: Reproduce, progress: Progress = SILENT) -> ReproduceReport:
    """Compare, and write it as an artifact. Raises UsageError for an unknown paper and a folder without releases."""
    up_to_date, out = execute(ReproduceStage(config), progress).up_to_date, config.folder()
    cells, known = read_value(out / CELLS, tuple[CellResult, ...], "restore it"), open_artifact(out).manifest.counts
    return ReproduceReport(out, up_to_date, known["titles"], tuple(known["releases"]), cells, known["cells"])


@dataclass(frozen=True)
class FigureSearch:
    """Looks for figures in evaluations of the project or in releases, and then in arithmetic."""

    inputs: FiguresInputs
    workdir: Path

    def verdict(self, paper: str, name: str, table: Paper) -> CellResult:
        """Of a cell."""
        cell = table.cells[name]
        needs, found = cell.needs, self._evaluated(paper, cell) if cell.run else None
        if cell.measure:
            found, lacking = self._measured(paper, cell)
            needs = (lacking or table.release, *needs)
        if cell.arithmetic and (found is None or found.items < cell.whole):
            found = compute(cell, table.cells)
        return verdict_on(paper, name, cell, found, needs)

    def _measured(self, paper: str, cell: Cell) -> tuple[Found | None, str]:
        """The figure of the release that is complete for the cell, else of the largest part; or what the releases lack."""
        best, lacking = None, ""
        for release in self.inputs.releases.values():
            if release.paper == paper:
                try:
                    one = replace(MEASURES[cell.measure](release, **cell.of), where=release.path.name)
                except NotHere as missing:
                    lacking = lacking or str(missing)
                    continue
                if one.items and (
                    best is None or (one.items == cell.whole, one.items) > (best.items == cell.whole, best.items)
                ):
                    best = one
        return best, lacking

    def _evaluated(self, paper: str, cell: Cell) -> Found | None:
        """The figure of the run of the cell, made from its weights, in an evaluation on a release that was named."""
        known = {content for content, release in self.inputs.releases.items() if release.paper == paper}
        for results in self.inputs.evaluations:
            parents = {one.sha256 for one in results.manifest.parents}
            if known.isdisjoint(parents) or not self._has_weights(cell, parents):
                continue
            for one in read_findings(results.path).figures:
                wanted = (cell.run, cell.split, "overall", cell.part, cell.measured)
                if (one.run, one.split, one.view, one.part, one.measure) == wanted and one.interval.value is not None:
                    low, high = (end and 100 * end for end in (one.interval.low, one.interval.high))
                    return Found(
                        100 * one.interval.value, one.queries, "evaluation", f"{RESULTS}/{results.path.name}", low, high
                    )
        return None

    def _has_weights(self, cell: Cell, parents: set[str]) -> bool:
        """Whether a run was trained from the weights of the cell; one that is named after them was not trained."""
        folder = self.workdir / RUNS / cell.run
        if cell.weights in ("", cell.run) or not (folder / MANIFEST).is_file():
            return cell.weights in ("", cell.run)
        run = open_artifact(folder)
        return run.sha256 in parents and run.manifest.config.get("encoder") == cell.weights


def _page(report: ReproduceReport) -> bytes:
    """A page that loads nothing."""
    styles = ((SHARED, "colours.css"), (PAGES, "report.css"), (PAGES, "agreement.css"), (PAGES, "cells.css"))
    style = "".join((files(package) / "static" / name).read_text("utf-8") for package, name in styles)
    page = environment(PAGES).get_template(PAGE).render(
        report=report, papers=[(report.titles[name], [*own]) for name, own in groupby(report.cells, lambda one: one.paper)],
        style=style, digest=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(), version=__version__,
    )  # fmt: skip
    return page.encode("utf-8", "replace")
