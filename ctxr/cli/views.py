"""Renders each command's report as blocks of facts, tables and lines."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import stdev
from textwrap import fill

from rich.markup import escape
from rich.table import Table as Grid
from rich.text import Text

from ctxr.annotation.config import ExportTasksReport, ImportAnswersReport
from ctxr.cli.config import InitReport, RepeatReport
from ctxr.cli.render import Block, Sentences, Summary, TextDocument, plain_text
from ctxr.engine.report import SUMMARY, SetsReport, Table
from ctxr.errors import plural
from ctxr.pipelines.crowd.config import (
    AggregateReport,
    PlanReport,
    ReviewReport,
    RunningServer,
    ServeReport,
    WorkersReport,
)
from ctxr.pipelines.curation.config import DocumentsReport, RebuildReport, VerifyReport
from ctxr.pipelines.finding.config import RunningSearch, SearchReport
from ctxr.pipelines.inspection.config import (
    AgreementReport,
    DiffReport,
    DoctorReport,
    ReportPage,
    ReproduceReport,
    ShortcutsReport,
    StatsReport,
    StatusReport,
)
from ctxr.pipelines.modelling.config import EvalReport, ListenReport, RegionsReport, TrainReport
from ctxr.pipelines.revision.config import ReviseReport
from ctxr.pipelines.sharing.config import ExportReport, TransferReport

MOST_SHOWN = 20
"""Images that are named on the terminal; `--json` names all."""

FINISHED = ("finished", "nothing to do, finished before")
WRITTEN = ("written", "up to date")
"""What happened to an artifact, by whether it was up to date."""


def image_sets(report: SetsReport) -> Iterator[Block]:
    """Of `build-sets` and `filter`: where the result is, what is in it, why the rest is not."""
    counts = report.counts
    if report.rank:
        finished = f"{counts['finished']} finished, {counts['failed']} failed, of {plural(counts['sources'], 'video')}"
        yield Summary(f"{report.artifact}: rank {report.rank}", {"videos": finished})
        return
    between = counts["frames"] + counts["photos"] - counts["considered"]
    video, frame, shot, album, photo = (
        plural(counts[f"{noun}s"], noun) for noun in ("video", "frame", "shot", "album", "photo")
    )
    parts = [f"{video} ({frame}, {shot})"] if counts["videos"] else []
    parts += [f"{album} ({photo})"] if counts["albums"] else []
    parts += [f"{counts['failed']} failed"] if counts["failed"] else []
    rows = {
        "read": report.read,
        "sets": f"{counts['sets']} ({counts['video_sets']} from video, {counts['photo_sets']} from photos)",
        "images": counts["images"],
        "sources": ", ".join(parts),
        "considered": f"{counts['considered']} frames and photos, {counts['embedded']} embedded"
        + (f"; {between} more lie between samples" if between > 0 else "")
        + (f", {counts['measured']} measured for quality" if counts["measured"] else ""),
        "excluded": _numbers(counts["reasons"]).replace("_", " "),
        "splits": _numbers(counts["splits"], "{name} {number}"),
        "encoder": f"{report.encoder}, threshold {report.threshold:g}",
    }
    if found := report.neighbours:
        rows["neighbours"] = f"index, recall {found['recall']:.3f} of {found['of']} on {found['photos']:,} photos"
    yield Summary(f"{report.artifact}: {FINISHED[report.up_to_date]}", rows)
    if report.curve and not any(report.curve.values()):
        low, *_, high = report.curve
        yield f"\nno threshold from {low} to {high} gives a set of the embedded frames"
    elif report.curve is not None:
        most = max(report.curve.values())
        yield "\n[bold]sets per threshold[/] (videos, without limits of quality; ◀ is in use)"
        if len(report.exact) < len(report.curve):
            yield "~ is counted on the frames embedded for ◀: a build mostly finds more, seldom fewer; the others are exact"
        for threshold, sets in report.curve.items():
            mark = "◀" if threshold == f"{report.threshold:.4g}" else ""
            count = f"{'' if threshold in report.exact else '~ '}{sets}"
            yield f"{threshold:>8} {count:>8} {'█' * round(40 * sets / most)} {mark}"
    if report.failures:
        # a command of thousands of names is what a shell made of a pattern
        retry = report.retry if len(report.retry) < 1000 else "the same command with --retry-failed"
        why = report.artifact / "failures.jsonl"
        again = f"; retry: {retry}" if retry else ""
        yield Text(f"{plural(len(report.failures), 'file')} failed: reasons in {why}{again}", "yellow")


def plan(report: PlanReport) -> Iterator[Block]:
    """What a study will take."""
    if report.sets:
        yield report.cost_table
    if report.sizes:
        yield report.size_table
    yield Sentences("for the paper", report.sentences)
    yield Sentences("assumed", report.notes)
    yield Summary(
        f"{report.plan}: {WRITTEN[report.up_to_date]}",
        {"people needed": _numbers(report.people) if report.sets else None},
    )


def tasks(report: ExportTasksReport) -> Iterator[Block]:
    """What the crowd is asked, and where it was written."""
    rows = {
        "task": report.task,
        "for": report.backend,
        "units": f"{report.units}, {report.votes} answers at most",
        "checks": f"{report.checks} units that test the worker" if report.checks else None,
        "files": ", ".join(report.files) or None,
        "offered": report.offer,
        "not filled": (report.offer.shortage if report.offer else "") or None,
        "launched" if report.launched else "raters": " ".join(report.notes) or None,
    }
    yield Summary(f"{report.tasks}: {FINISHED[report.up_to_date]}", rows)


def judgments(report: ImportAnswersReport) -> Iterator[Block]:
    """What answers were merged."""
    rows = {
        "from": report.platform,
        "new": report.new,
        "known": report.again,
        "refused": _refused(report.reasons, report.judgments),
        "without answer": plural(report.unanswered, "unit"),
        "not confirmed": report.unconfirmed or None,
        "in all": " of ".join(plural(report.counts[f"{what}s"], what) for what in ("answer", "worker")),
    }
    heard = report.new or report.again or report.refused
    state = "no answers yet" if not heard else "nothing to do, imported before" if report.up_to_date else "finished"
    yield Summary(f"{report.judgments}: {state}", rows)


def dataset(report: AggregateReport) -> Iterator[Block]:
    """Figures of the crowd, the dataset, and answers that break the rules of assignment."""
    yield from _tables(report)
    yield Sentences("answers that break the rules of assignment", report.violations)
    counts = report.counts
    rows = {
        "dataset": report.dataset,
        "of all splits": f"{plural(counts['sets'], 'set')}, {counts['queries']:,} queries, {counts['judgments']:,} judgments",
        "dropped": _numbers(counts["dropped"]),
        "refused": _refused(report.refused, report.read),
        "all tables": _more(report),
    }
    yield Summary(WRITTEN[report.up_to_date], rows)


def workers(report: WorkersReport) -> Iterator[Block]:
    """How good each worker is, and what was changed."""
    if report.data_protection:
        yield TextDocument(report.data_protection)
        return
    yield Sentences("changed", report.changed)
    yield Sentences("withdrawn", report.withdrawn)
    yield Sentences("asked to withdraw", report.leaving)
    if report.settled:
        yield report.settled
    yield report.table
    if report.page_use and report.page_use.rows:
        yield report.page_use
    changes = [
        f"{change.at} {change.worker}: {change.before} → {change.after} by {change.by}: {change.reason}"
        + (" (undone)" if change.undone else "")
        for change in report.changes
    ]
    yield Sentences("changes of worker status", changes)
    yield report.owed
    if report.consents.rows:
        yield report.consents
    if report.exit and report.exit.rows:
        yield report.exit
    yield Sentences("refused answers", [f"{reason}: {number}" for reason, number in report.refused.items()])


def page(report: ReportPage) -> Iterator[Block]:
    """Where the page is, and what it shows."""
    where = f"in {report.folder}" if report.folder else "inside the page"
    rows = {
        "about": " → ".join(str(path) for path in report.chain),
        "sets": report.sets,
        "pictures": f"{report.pictures}, {where}" + (f", {len(report.missing)} missing" if report.missing else ""),
        "size": f"{report.bytes / 1e6:.1f} MB",
        "look": f"open {report.page} in a browser",
    }
    yield Summary(f"{report.page}: written", rows)


def export(report: ExportReport) -> Iterator[Block]:
    """The export and what it omits."""
    counts = report.counts
    rows = {
        "read": report.read,
        "format": report.to,
        "sets": f"{counts['sets']}, {counts['images']} images, {counts['queries']} queries",
        "splits": _numbers(counts["splits"], "{name} {number}"),
        "left out": " ".join(report.left_out) or "nothing",
        "notes": " ".join(report.notes) or None,
        "card": report.export / "README.md",
    }
    yield Summary(f"{report.export}: {FINISHED[report.up_to_date]}", rows)


def transferred(report: TransferReport) -> Iterator[Block]:
    """How much of an artifact was copied."""
    copied = f"{report.files:,}, {report.copied:,} of them copied now ({report.bytes / 1e6:,.1f} MB)"
    yield Summary(
        f"{report.artifact}: {FINISHED[not report.copied]}", {"url": report.url, "kind": report.kind, "files": copied}
    )


def documents(report: DocumentsReport) -> Iterator[Block]:
    """How many documents, or pairs, were built."""
    counts, splits = report.counts, _numbers(report.counts["splits"], "{name} {number}")
    rows: dict[str, object] = {"read": report.read}
    if "pairs" in counts:
        rows["pairs"] = f"{counts['pairs']:,} ({splits}), {counts['entailed']:,} of them entailed"
        rows["images"] = f"{counts['images']:,}"
    else:
        rows["documents"] = f"{counts['documents']:,} ({splits})"
        images, links = f"{counts['images']:,} different images", f"{counts['links']:,} links"
        rows["in them"] = f"{counts['sentences']:,} sentences, {images}, {links}"
        rows["notes"] = "; ".join(report.notes) or None
    yield Summary(f"{report.artifact}: {FINISHED[report.up_to_date]}", rows)


def rebuilt(report: RebuildReport) -> Iterator[Block]:
    """How much of a recipe could be made again."""
    counts = report.counts
    sets, images = (counts[name] + counts.get(f"{name}_left_out", 0) for name in ("sets", "images"))
    rows = {
        "read": report.read,
        "sets": f"{counts['sets']} of {sets} sets of the recipe"
        + (", the others lack an image that could not be made" if counts["sets"] < sets else ""),
        "images": f"{counts['images']} of {images} images of the recipe: {counts['equal']} equal to it, {counts['different']} not",
        "failed": plural(counts["failed"], "source")
        + (f", reasons in {report.artifact}/failures.jsonl" if counts["failed"] else ""),
    }
    yield Summary(f"{report.artifact}: {FINISHED[report.up_to_date]}", rows)


def verified(report: VerifyReport) -> Iterator[Block]:
    """How many images are those of their sources, and which are not."""
    rows = {
        "kind": report.kind,
        "equal": f"{report.equal} of {report.images} images",
        "different": len(report.differences),
        "not compared": len(report.unproven),
        **{f"source {name}": why for name, why in report.sources.items()},
        "versions": report.software or None,
    }
    yield Summary(str(report.artifact), rows)
    for row in report.differences[:MOST_SHOWN]:
        far = "" if row["distance"] is None else f" (pixel values up to {row['distance']} apart)"
        yield Text(f"{row['id']}: {row['what']}: {row['message']}{far}")
    if len(report.differences) > MOST_SHOWN:
        yield f"… and {len(report.differences) - MOST_SHOWN} more: --json names all"


def statistics(report: StatsReport) -> Iterator[Block]:
    """A benchmark in figures."""
    yield f"[bold]{escape(report.dataset)}[/]"
    yield from report.tables.values()
    yield Sentences("not computed", report.missing)
    yield Sentences("notes", report.notes)


def artifact_diff(report: DiffReport) -> Iterator[Block]:
    """What came, went and changed, the first of each."""
    same = "different" if report.differ else "the same"
    yield Summary(f"{report.kind.replace('_', ' ')}: {same}", {"A": report.a, "B": report.b})
    yield from _firsts(report.tables)


def vote_agreement(report: AgreementReport) -> Iterator[Block]:
    """How far people agree, and the first of each table."""
    written = {"page": str(report.folder / "agreement.html")} if report.folder else {}
    yield Summary(report.source, {name: f"{count:,}" for name, count in report.counts.items()} | written)
    yield from _firsts(report.tables)
    yield Sentences("notes", report.notes)


def _firsts(tables: Mapping[str, Table]) -> Iterator[Block]:
    """The first rows of each table."""
    for table in tables.values():
        if (more := len(table.rows) - MOST_SHOWN) > 0:
            note = "; ".join([f"and {more:,} more, which --json names", *filter(None, [table.note])])
            table = replace(table, rows=table.rows[:MOST_SHOWN], note=note)
        if table.rows:
            yield table


def published_figures(report: ReproduceReport) -> Iterator[Block]:
    """Each published figure with what was found, by paper."""
    for paper, title in report.titles.items():
        rows = []
        for one in (one for one in report.cells if one.paper == paper):
            doubtful = f"; doubtful: {one.cell.doubtful}" if one.cell.doubtful else ""
            rows.append(
                (one.cell.at, one.cell.figure, one.cell.shown(one.cell.value), one.here, one.verdict + doubtful)
            )
        yield Table(title, ("in", "figure", "printed", "here", "verdict"), tuple(rows))
    facts = {"measured": ", ".join(report.releases) or None, **report.counts, "page": report.folder / "cells.html"}
    yield Summary(f"{report.folder}: {WRITTEN[report.up_to_date]}", facts)


def shortcuts(report: ShortcutsReport) -> Iterator[Block]:
    """What rules reach that never read a description."""
    yield f"[bold]{escape(report.dataset)}[/]"
    if report.verdicts:
        rows = []
        for verdict in report.verdicts:
            accuracy = f"{verdict.accuracy:.3f} ({verdict.low:.3f}–{verdict.high:.3f})"
            figures = (verdict.queries, accuracy, verdict.chance, verdict.corrected)
            rows.append((verdict.rule, verdict.part, *figures, "above chance" if verdict.flagged else ""))
        note = (
            f"{report.queries} descriptions with a target; n: different targets; each set is one trial. In brackets an interval of "
            f"at least 95 %, not corrected; p: probability of such an accuracy by chance (at most), Holm-corrected over "
            f"{len(report.verdicts)} tests, flagged below 0.025; positions {report.learnt}"
        )
        flagged = any(verdict.flagged for verdict in report.verdicts)
        heads = ("rule", "on", "n", "accuracy", "chance", "p", "")[: 7 if flagged else 6]
        yield Table("Shortcuts", heads, tuple(row[: len(heads)] for row in rows), note)
    yield Sentences("not tested", report.missing)
    yield Sentences("notes", report.notes)


def training(report: TrainReport) -> Iterator[Block]:
    """A run, how good each of its seeds is, and where there are several, their mean and spread."""
    facts = {
        "variant": report.variant,
        "encoder": report.encoder or None,
        "regions": report.regions or None,
        "dataset": report.dataset,
        report.unit: _numbers(report.queries),
        "written": str(report.folder),
        "already": "trained before: nothing to do" if report.up_to_date else None,
    }
    yield Summary(report.run, facts)
    defined = {
        split: [share for seed in report.seeds if (share := getattr(seed, split)) is not None]
        for split in ("valid", "test")
    }
    splits = [split for split, shares in defined.items() if shares]
    rows: list[tuple[object, ...]] = [
        (str(seed.seed), seed.epoch, seed.epochs, *(_percent(getattr(seed, split)) for split in splits))
        for seed in report.seeds
    ]
    if len(report.seeds) > 1:
        spreads = [100 * stdev(defined[split]) if len(defined[split]) > 1 else None for split in splits]
        rows.append(("mean", None, None, *(_percent(getattr(report, split)) for split in splits)))
        rows.append(("s.d.", None, None, *spreads))
    chosen = f"{report.judged_on} chooses the epoch, so it flatters" if report.judged_on else ""
    note = "; ".join(filter(None, (chosen, report.note)))
    yield Table(f"{report.measure}, %", ("seed", "epoch", "of", *splits), tuple(rows), note, digits=1)


def regions(report: RegionsReport) -> Iterator[Block]:
    """What was extracted of how many pictures."""
    yield Sentences("left out", report.left_out)
    rows = {
        "regions": report.regions,
        "dataset": report.dataset,
        "by": report.by,
        "pictures": report.pictures,
        "regions of a picture": f"up to {report.most}, the whole of it first",
        "features": report.features,
    }
    yield Summary(WRITTEN[report.up_to_date], rows)


def listening(report: ListenReport) -> Iterator[Block]:
    """What a language model found, and what it cost."""
    yield from report.tables
    yield Sentences("notes", report.notes)
    rows = {
        "run": report.run,
        "dataset": report.dataset,
        "model": report.model,
        "queries": f"{report.queries:,}",
        "requests": f"{report.requests:,}, answered {report.answered:,}",
        "replies": _numbers(report.outcomes, "{name} {number}", "none yet"),
        "tokens": f"{report.tokens_in:,} sent, {report.tokens_out:,} answered",
        "cost": f"{report.cost:.4f}",
        "accuracy": "–" if report.accuracy is None else f"{report.accuracy:.3f}",
    }
    if report.dry_run:
        rows |= {
            "tokens": f"about {report.tokens_in:,} to send, at most {report.tokens_out:,} answered",
            "cost": f"about {report.cost:.4f} for what is not answered yet",
        }
    yield Summary("would ask" if report.dry_run else "partial" if report.finding else WRITTEN[report.up_to_date], rows)


def revision(report: ReviseReport) -> Iterator[Block]:
    """What a round added, or would add."""
    yield from _tables(report)
    yield Summary(f"round {report.round} written" if report.did == "added" else report.did, report.facts)


def evaluation(report: EvalReport) -> Iterator[Block]:
    """Figures of the runs."""
    yield from _tables(report)
    figures = dict.fromkeys(name.partition(".")[0] for name in report.files if name.startswith("figures/"))
    pasted = [*(name for name in report.files if name.endswith(".tex")), *(f"{name}.svg and .pdf" for name in figures)]
    rows = {"results": report.results, "dataset": report.dataset, "files": ", ".join(pasted) or None}
    yield Summary(WRITTEN[report.up_to_date], rows | {"all tables": _more(report)})


def searching(page: RunningSearch) -> Iterator[Block]:
    """Where the page is."""
    yield Summary(f"search at {page.address}", {"pictures": page.pictures, "by": page.by})
    yield "[dim]Ctrl-C stops[/]"


def search_results(report: SearchReport) -> Iterator[Block]:
    """The pictures that fit, or what the page searched."""
    answer = report.answer
    if answer is not None:
        rows = [
            (rank, one.file, "–" if one.time is None else f"{one.time:.1f} s", one.score)
            for rank, one in enumerate(answer.results, 1)
        ]
        note = "nothing fits: these are the nearest" if answer.fits is False else ""
        yield Table("Pictures", ("", "file", "time", "score"), tuple(rows), note)
    left_out = {"left out": len(report.left_out) or None, "gone": answer.gone or None if answer else None}
    narratives = {"narratives": report.narratives}
    yield Summary(str(report.index), {"pictures": report.pictures, "by": report.by, **left_out, **narratives})


def serving(server: RunningServer) -> Iterator[Block]:
    """Where people sign in, while the server runs."""
    waiting = {f"{task} waiting": number for task, number in server.waiting.items()}
    people = _numbers(server.people) if server.people else None
    yield Summary(f"serving at {server.address}", {**waiting, "people needed": people})
    yield "[bold]sign-in links[/]"
    for name, link in server.links.items():  # whole, however narrow the terminal: they are copied
        worker = f" ({server.workers[name]})" if name in server.workers else ""
        yield f"  [dim]{escape(name)}{worker}[/]  {link}"
    if server.run:
        yield f"[bold]this study[/] [dim](for you alone: progress, people, pause)[/]\n  {server.run}"
    yield "[dim]Ctrl-C stops; what was sent is kept[/]"


def collected(report: ServeReport) -> Iterator[Block]:
    """What people did at the server."""
    if isinstance(report, ReviewReport):
        done = report.total
        sets = f"{done['kept']} kept, {done['rejected']} rejected, {report.open['sets']} open"
        shown = {"of": report.read, "sets": sets, "images rejected": done["images"], "apply": report.apply or None}
        yield Summary(f"decisions in {report.decisions}", shown)
        return
    rows = {
        "new answers": report.answers,
        "workers": report.workers,
        **{f"{task} answers": number for task, number in report.total.items()},
        **{f"{task} still open": number for task, number in report.open.items() if number},
    }
    yield Summary("collected", rows)


def checks(report: DoctorReport) -> Iterator[Block]:
    """The checks, with a fix for each problem."""
    marks = {"ok": "[green]✓[/]", "note": "[yellow]·[/]", "problem": "[red]✗[/]"}
    table = Grid.grid(padding=(0, 2))
    for check in report.checks:
        table.add_row(marks[check.state], escape(check.name), escape(check.detail))
        if check.cure:
            table.add_row("", "", f"[cyan]→ {escape(check.cure)}[/]")
    yield table


def repeated(report: RepeatReport) -> Iterator[Block]:
    """What was made again, and what was not."""
    yield Sentences("would repeat" if report.dry_run else "repeated", report.repeated)
    yield Sentences("left as it is", (f"{name}: {why}" for name, why in report.left.items()))
    if not report.repeated and not report.left:
        yield "nothing is stale"


def settings(report: InitReport) -> Iterator[Block]:
    """The file that was written."""
    own = report.file.suffix == ".py"
    edit = "put your model into score()" if own else "remove the # before an option to set it"
    call = f"ctxr eval --model {report.file.stem}:score" if own else None
    yield Summary(f"{report.file}: written", {"edit": edit, "try": call})


def project_status(report: StatusReport) -> Iterator[Block]:
    """The artifacts of a project with their state, open units, and notes."""
    rows = [[*one.values()] for one in report.artifacts]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-2]
    for *facts, holds, condition in rows:  # each on one line, however narrow the terminal: names are copied
        yield plain_text("  ".join((*map(str.ljust, facts, widths), holds)).rstrip())
        if condition:
            yield f"    [yellow]{plain_text(condition)}[/]"
    waiting = [f"{task}: {plural(number, 'unit')} open" for task, number in report.open.items() if number]
    yield Sentences("answers", waiting)
    if study := report.study:
        yield from (
            one for one in (study.progress, study.agreement, study.money, study.people, study.latest) if one.rows
        )
        yield Sentences("stuck", [*[f"paused since {study.paused}"] * bool(study.paused), *study.stuck])
    yield Sentences("notes", report.notes)


def _tables(report: AggregateReport | EvalReport | ReviseReport) -> Iterator[Block]:
    summary = report.tables.get(SUMMARY)
    short = _more(report) and summary and [replace(summary, note=fill(summary.note, 79)), *_differences(report.tables)]
    yield from short or report.tables.values()
    yield Sentences("notes", report.notes)


def _differences(tables: Mapping[str, Table]) -> Iterator[Block]:
    """Of the differences on the split of the summary those of its measures, over all queries."""
    summary, heads = tables[SUMMARY], ("run", "measure", "against", "difference", "Holm")
    split, wanted = summary.title.partition(":")[0], {"all", *summary.columns[1:]}
    for one in (table for name, table in tables.items() if name.endswith("/differences")):
        at = [place for place, head in enumerate(one.columns) if head in heads]
        rows = [tuple(row[place] for place in at) for row in one.rows if row[1] in wanted and row[2] is not None]
        if rows and one.title.startswith(f"{split}:"):
            note = (
                "run minus against, in points; Holm: p of the sign flips, corrected over all differences; *: below 0.05"
            )
            yield Table(one.title, tuple(one.columns[place] for place in at), tuple(rows), fill(note, 79))


def _more(report: AggregateReport | EvalReport | ReviseReport) -> str | None:
    return None if getattr(report, "full", True) or SUMMARY not in report.tables else "the same command with --full"


def _refused(reasons: Mapping[str, int], judgments: Path) -> str:
    return f"{_numbers(reasons, '{name} {number}')} (see {judgments / 'refused.jsonl'})" if reasons else "0"


def _numbers(counts: Mapping[str, int], form: str = "{number} {name}", none: str = "none") -> str:
    return ", ".join(form.format(name=name, number=number) for name, number in counts.items()) or none


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
