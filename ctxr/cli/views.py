"""What is shown of each command's report: blocks of facts, tables and lines, and the error that ends it where something was found."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table as Grid
from rich.text import Text

from ctxr.cli.render import Block, Sentences, Summary
from ctxr.errors import FindingsError, PartialError, plural
from ctxr.pipelines import audit
from ctxr.pipelines import plan as planning
from ctxr.pipelines.aggregate import AggregateReport
from ctxr.pipelines.check_artifact import Check
from ctxr.pipelines.demo import DemoReport
from ctxr.pipelines.demo_crowd import CrowdReport
from ctxr.pipelines.demo_models import MEANING, ModelsReport
from ctxr.pipelines.demo_revision import MEANING as REVISED
from ctxr.pipelines.demo_revision import K, Proportion, RevisionReport
from ctxr.pipelines.eval import EvalReport
from ctxr.pipelines.export import ExportReport
from ctxr.pipelines.export_tasks import ExportTasksReport
from ctxr.pipelines.import_answers import ImportAnswersReport
from ctxr.pipelines.listen import ListenReport
from ctxr.pipelines.rebuild import RebuildReport
from ctxr.pipelines.regions import RegionsReport
from ctxr.pipelines.report import ReportPage
from ctxr.pipelines.revise_labels import ReviseReport
from ctxr.pipelines.serve import Collected, Opened
from ctxr.pipelines.sets_report import SetsReport
from ctxr.pipelines.stats import StatsReport
from ctxr.pipelines.train import TrainReport
from ctxr.pipelines.training import summary
from ctxr.pipelines.verify import VerifyReport
from ctxr.pipelines.workers import WorkersReport

MOST_SHOWN = 20
"""Images that are named on the terminal; `--json` names all."""


def image_sets(report: SetsReport) -> Iterator[Block]:
    """Of `build-sets` and `filter`: where the result is, what is in it, why the rest is not."""
    counts = report.counts
    rows = {
        **({"read": report.read} if report.read is not None else {}),
        "sets": f"{counts['sets']} ({counts['video_sets']} from video, {counts['photo_sets']} from photos)",
        "images": counts["images"],
        "sources": _sources(counts),
        "looked at": f"{counts['considered']} sampled frames and photos, {counts['embedded']} embedded"
        + (f", {counts['measured']} measured for quality" if counts["measured"] else ""),
        "in no set": _numbers(counts["reasons"]),
        "splits": _splits(counts),
        "encoder": f"{report.encoder}, threshold {report.threshold:g}",
    }
    if report.failures:
        rows["failed"] = f"{len(report.failures)}, reasons in {report.artifact / 'failures.jsonl'}"
    yield Summary(f"{report.artifact}: {_finished(report.up_to_date)}", rows)
    if report.curve is not None:
        most = max(report.curve.values(), default=0)
        yield "\n[bold]sets per threshold[/] (video, before quality)"
        for threshold, sets in report.curve.items():
            mark = "◀" if threshold == f"{report.threshold:.4g}" else ""
            yield f"{threshold:>8} {sets:>6} {'█' * round(40 * sets / most) if most else ''} {mark}"


def _sources(counts: Mapping[str, int]) -> str:
    def many(things: str) -> str:
        return plural(counts[things], things.removesuffix("s"))

    parts = []
    if counts["videos"]:
        parts.append(f"{many('videos')} ({many('frames')}, {many('shots')})")
    if counts["albums"]:
        parts.append(f"{many('albums')} ({many('photos')})")
    if counts["failed"]:
        parts.append(f"{counts['failed']} failed")
    return ", ".join(parts)


def plan(report: planning.PlanReport) -> Iterator[Block]:
    """What a study will take."""
    yield planning.as_table(report)
    yield Sentences("assumed", report.notes)


def tasks(report: ExportTasksReport) -> Iterator[Block]:
    """What the crowd is asked, and where it was written."""
    rows = {
        "task": report.task,
        "for": report.backend,
        "units": f"{report.units}, {report.votes} answers at most",
        **({"checks": f"{report.checks} units that test the worker"} if report.checks else {}),
        **({"files": ", ".join(report.files)} if report.files else {}),
        **({"launched": " ".join(report.notes)} if report.notes else {}),
    }
    yield Summary(f"{report.tasks}: {_finished(report.up_to_date)}", rows)


def judgments(report: ImportAnswersReport) -> Iterator[Block]:
    """What answers were merged."""
    reasons = ", ".join(f"{code} {number}" for code, number in report.reasons.items())
    rows = {
        "from": report.platform,
        "new": report.new,
        "known": report.again,
        "refused": f"{report.refused} ({reasons}; see {report.judgments / 'refused.jsonl'})" if report.refused else 0,
        "in all": " of ".join(plural(report.counts[f"{what}s"], what) for what in ("answer", "worker")),
        **({"notes": " ".join(report.notes)} if report.notes else {}),
    }
    heard = report.new or report.again or report.refused
    state = "no answers yet" if not heard else "nothing to do, imported before" if report.up_to_date else "finished"
    yield Summary(f"{report.judgments}: {state}", rows)


def dataset(report: AggregateReport) -> Iterator[Block]:
    """Figures of the crowd, what is in the dataset, and answers that break the rules of assignment."""
    yield from report.tables.values()
    yield Sentences("to know", report.notes)
    yield Sentences("answers that break the rules of assignment", report.violations)
    counts = report.counts
    rows = {
        "dataset": report.dataset,
        "sets": counts["sets"],
        "queries": counts["queries"],
        "judgments": counts["judgments"],
        "dropped": _numbers(counts["dropped"]),
    }
    yield Summary(_written(report.up_to_date), rows)
    if report.violations:
        yield FindingsError(
            f"{plural(len(report.violations), 'violation')} of the rules of assignment: {report.violations[0]}",
            hint=f"{report.dataset / 'certificate.json'} names each; publish it with the figures",
        )


def workers(report: WorkersReport) -> Iterator[Block]:
    """How good each worker is, and what was changed."""
    yield Sentences("changed", report.changed)
    yield report.table
    yield Sentences(
        "changes of standing",
        [
            f"{one.at} {one.worker}: {one.before} → {one.after} by {one.by}: {one.reason}"
            + (" (undone)" if one.undone else "")
            for one in report.changes
        ],
    )
    yield Sentences(
        "waited for a talk that could not be, to be paid",
        [f"{one.worker}: {one.seconds:.0f} s, {one.reason.replace('_', ' ')} ({one.at})" for one in report.waited],
    )


def page(report: ReportPage) -> Iterator[Block]:
    """Where the page is, and what it shows."""
    where = f"in {report.folder}" if report.folder else "inside the page"
    rows = {
        "about": " → ".join(str(path) for path in report.chain),
        "sets": report.sets,
        "pictures": f"{report.pictures}, {where}" + (f", {len(report.missing)} missing" if report.missing else ""),
        "size": f"{report.bytes / 1e6:.1f} MB",
    }
    yield Summary(f"{report.page}: written", rows)


def export(report: ExportReport) -> Iterator[Block]:
    """What was written in another format, and what it leaves out."""
    counts = report.counts
    rows = {
        "read": report.read,
        "format": report.to,
        "sets": f"{counts['sets']}, {counts['images']} images, {counts['queries']} queries",
        "splits": _splits(counts),
        "left out": " ".join(report.left_out) or "nothing",
        **({"notes": " ".join(report.notes)} if report.notes else {}),
        "card": report.export / "README.md",
    }
    yield Summary(f"{report.export}: {_finished(report.up_to_date)}", rows)


def rebuilt(report: RebuildReport) -> Iterator[Block]:
    """How much of a recipe could be made again."""
    counts = report.counts
    sets, images = (counts[name] + counts.get(f"{name}_left_out", 0) for name in ("sets", "images"))
    lacks = counts["sets"] < sets
    rows = {
        "read": report.read,
        "sets": f"{counts['sets']} of {sets} sets of the recipe"
        + (", the others lack an image that could not be made" if lacks else ""),
        "images": f"{counts['images']} of {images} images of the recipe: {counts['equal']} equal to it, {counts['different']} not",
        "failed": f"{counts['failed']} sources"
        + (f", reasons in {report.artifact}/failures.jsonl" if counts["failed"] else ""),
    }
    yield Summary(f"{report.artifact}: {_finished(report.up_to_date)}", rows)
    if lacks:
        yield PartialError(
            f"{sets - counts['sets']} of {sets} sets of the recipe could not be made",
            hint="--videos DIR with the missing sources, then the same command again",
        )


def verified(report: VerifyReport) -> Iterator[Block]:
    """How many images are those of their sources, and which are not."""
    rows = {
        "kind": report.kind,
        "equal": f"{report.equal} of {report.images} images",
        "different": len(report.differences),
        "not compared": len(report.unproven),
        **{f"source {name}": why for name, why in report.sources.items()},
        **({"versions": report.software} if report.software else {}),
    }
    yield Summary(str(report.artifact), rows)
    for row in report.differences[:MOST_SHOWN]:
        far = "" if row["distance"] is None else f" (pixel values up to {row['distance']} apart)"
        yield Text(f"{row['id']}: {row['what']}: {row['message']}{far}")
    if len(report.differences) > MOST_SHOWN:
        yield f"… and {len(report.differences) - MOST_SHOWN} more: --json names all"
    if report.differences or report.unproven:
        yield FindingsError(
            f"{len(report.differences)} images differ, {len(report.unproven)} could not be compared",
            hint="--videos DIR names the folder where the sources lie now" if report.unproven else "",
        )


def statistics(report: StatsReport) -> Iterator[Block]:
    """A benchmark in figures."""
    yield f"[bold]{escape(report.dataset)}[/]"
    yield from report.tables.values()
    yield Sentences("cannot be said", report.missing)
    yield Sentences("to know", report.notes)


def shortcuts(report: audit.AuditReport) -> Iterator[Block]:
    """What rules reach that never read a description."""
    yield f"[bold]{escape(report.dataset)}[/]"
    if report.verdicts:
        yield audit.as_table(report)
    yield Sentences("cannot be tried", report.missing)
    yield Sentences("to know", report.notes)
    flagged = [verdict for verdict in report.verdicts if verdict.flagged]
    if flagged:
        named = ", ".join(f"{one.rule} on {one.part}" for one in flagged)
        yield FindingsError(
            f"{plural(len(flagged), 'shortcut')} above chance: {named}",
            hint="look at how targets were drawn and frames ordered, or report the shortcut with the benchmark",
        )


def training(report: TrainReport) -> Iterator[Block]:
    """A run, and how good each of its seeds is."""
    yield Summary(report.run, summary.facts(report))
    yield summary.table(report)


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
    yield Summary(_written(report.up_to_date), rows)


def listening(report: ListenReport) -> Iterator[Block]:
    """What a language model found, and what it cost."""
    yield from report.tables
    yield Sentences("to know", report.notes)
    stopped = not report.complete and not report.dry_run
    rows = {
        "run": report.run,
        "dataset": report.dataset,
        "model": report.model,
        "queries": f"{report.queries:,}",
        "requests": f"{report.requests:,}, answered {report.answered:,}",
        "replies": ", ".join(f"{name} {number}" for name, number in report.outcomes.items()) or "none yet",
        "tokens": f"{report.tokens_in:,} sent, {report.tokens_out:,} answered",
        "cost": f"{report.cost:.4f}",
        "accuracy": "–" if report.accuracy is None else f"{report.accuracy:.3f}",
    }
    if report.dry_run:
        rows |= {"tokens": f"about {report.tokens_in:,} to send, at most {report.tokens_out:,} answered"}
        rows |= {"cost": f"about {report.cost:.4f} for what is not answered yet"}
    yield Summary("would ask" if report.dry_run else "partial" if stopped else _written(report.up_to_date), rows)
    if stopped:
        yield PartialError(
            f"--max-cost ended the run: {report.answered} of {report.requests} requests were answered",
            hint="run the same command with a larger --max-cost: it goes on where it was",
        )


def revision(report: ReviseReport) -> Iterator[Block]:
    """What a round added, or would add."""
    yield from report.tables.values()
    yield Sentences("to know", report.notes)
    yield Summary(report.did, report.facts)


def evaluation(report: EvalReport) -> Iterator[Block]:
    """Figures of the runs."""
    yield from report.tables.values()
    yield Sentences("to know", report.notes)
    rows = {"results": report.results, "dataset": report.dataset, "runs": ", ".join(report.runs)}
    yield Summary(_written(report.up_to_date), rows)


def serving(server: Opened) -> Iterator[Block]:
    """Where people come in, while the server runs."""
    yield Summary(
        f"serving at {server.address}", {f"{task} waiting": number for task, number in server.waiting.items()}
    )
    yield "[bold]ways in[/]"
    for name, link in server.links.items():  # whole, however narrow the terminal: they are copied
        yield f"  [dim]{escape(name)}[/]  {link}"
    yield "[dim]Ctrl-C stops; what was sent is kept[/]"


def collected(report: Collected) -> Iterator[Block]:
    """What people did at the server."""
    rows = {
        "new answers": report.answers,
        "workers": report.workers,
        **{f"{task} answers": number for task, number in report.total.items()},
        **{f"{task} still open": number for task, number in report.open.items() if number},
        **({"next": report.after} if report.after else {}),
    }
    yield Summary("collected", rows)


def checks(report: Sequence[Check]) -> Iterator[Block]:
    """What was looked at, and how to cure what is wrong."""
    marks = {"ok": "[green]✓[/]", "note": "[yellow]·[/]", "problem": "[red]✗[/]"}
    table = Grid.grid(padding=(0, 2))
    for check in report:
        table.add_row(marks[check.state], escape(check.name), escape(check.detail))
        if check.cure:
            table.add_row("", "", f"[cyan]→ {escape(check.cure)}[/]")
    yield table
    if problems := _problems(report):
        yield FindingsError(f"{plural(len(problems), 'problem')} found", hint=problems[0].cure)


def checks_document(report: Sequence[Check]) -> dict[str, Any]:
    """The checks for programs."""
    return {"checks": report, "problems": len(_problems(report))}


def _problems(report: Sequence[Check]) -> list[Check]:
    return [check for check in report if check.state == "problem"]


def demo(report: DemoReport) -> Iterator[Block]:
    """What each part of the chain found in the drawn world, next to the truth."""
    yield from image_sets(report.built)
    yield ""
    yield from image_sets(report.filtered)
    yield ""
    yield _found(report)
    yield "frames in which a blur or a title comes or goes have no right answer and are not counted"
    yield _crowd(report.crowd)
    yield from _models(report.models)
    yield from _revised(report.revision)
    yield (
        f"\n[bold]look at[/]   {report.page} in a browser; {report.filtered.artifact / 'images'};\n"
        f"          {report.models.page}, with what each model picked and what it looked at;\n"
        f"          {report.revision.page}, with what was added to each picture"
    )
    yield (
        "[bold]now yours[/] ctxr build-sets FOLDER      videos or photos, any number\n"
        "          ctxr build-sets --yield-curve\n"
        "          ctxr filter --brisque 0.65 --max-text 0.02\n"
        "          ctxr report\n"
        "          ctxr export-tasks describe; ctxr serve --invite 5; ctxr aggregate\n"
        "          ctxr train --recipe clip-batch; ctxr train --recipe clip-temporal; ctxr eval --compare; ctxr report\n"
        "          ctxr train --recipe entailment --dataset PAIRS; ctxr revise-labels --entail\n"
        "          ctxr doctor work/filtered"
    )


def _grid(title: str, names: Sequence[str], left: int = 1) -> Grid:
    """An empty table; the first columns hold text, the others figures."""
    table = Grid(title=title, title_justify="left", title_style="bold")
    for number, name in enumerate(names):
        table.add_column(name, justify="left" if number < left else "right")
    return table


def _found(report: DemoReport) -> Grid:
    table = _grid("found next to the truth", ("", "found", "missed", "false", "precision", "recall"))
    found = {
        "blurred frames": report.blurred,
        "frames with text": report.titled,
        "duplicate photos": report.duplicates,
    }
    for name, one in found.items():
        if one is not None:
            figures = map(str, (one.right, one.missed, one.false))
            table.add_row(name, *figures, f"{one.precision:.2f}", f"{one.recall:.2f}")
    return table


def _crowd(crowd: CrowdReport) -> str:
    lines = [
        f"\n[bold]the crowd[/] {crowd.workers} simulated workers gave {crowd.answers} answers at the pages of ctxr serve: "
        f"{crowd.kept} descriptions kept, {crowd.dropped} dropped",
        f"          spammers and pickers of the first place: {crowd.found} found, {crowd.missed} missed, "
        f"{crowd.accused} careful workers accused",
    ]
    for one in crowd.estimates:
        found = "undefined" if one.found is None else f"{one.found:.3f}"
        span = f"{one.low:.3f} to {one.high:.3f} in 95 % of draws{'' if one.fits else ': outside'}"
        lines.append(f"          {one.name} {found}, put by the simulation at {span}")
    return "\n".join(lines)


def _models(models: ModelsReport) -> Iterator[Block]:
    yield (
        f"\n[bold]models[/]    trained on {models.queries['train']} drawn descriptions, judged on {models.queries['test']}: "
        "too few to tell neighbours apart\n"
        "          (docs/log.md has the larger run); a blind guess finds 10 % of the images"
    )
    table = _grid("accuracy on test, %", ("run", "what it is", "all", "95 %", "video", "static"), left=2)
    for one in models.runs:
        whole = Proportion(one.value, one.low, one.high)
        parts = (_percent(Proportion(part, None, None)) for part in (one.video, one.static))
        table.add_row(one.run, MEANING[one.run], _percent(whole), _span(whole), *parts)
    yield table


def _revised(report: RevisionReport) -> Iterator[Block]:
    quality = ", ".join(f"{name} {_percent(share)}" for name, share in report.classifier.items())
    kappa = ", ".join(f"{name} {'undefined' if one is None else f'{one:.2f}'}" for name, one in report.kappa.items())
    yield (
        f"\n[bold]revised[/]   an entailment classifier learned from {report.learned} drawn pictures, too few for a good one; on "
        f"{report.judged} pairs of others, %:\n"
        f"          {quality}\n"
        f"          {report.added} of {report.candidates:,} candidates for {report.pictures} pictures were added, at a probability of "
        f"{report.threshold:.3f} or more\n"
        f"          simulated people gave {report.answers} answers on {report.looked} of them; {kappa}"
    )
    added = _grid("what was added, %", ("", "by people", "95 %", "as drawn"))
    for one in report.reliable:
        added.add_row(one.name, _percent(one.people), _span(one.people), _percent(Proportion(one.drawn, None, None)))
    yield added
    yield (
        f"recall is that among the candidates; {report.doubtful} of them are too close to call and count neither way in what was drawn"
    )
    runs = _grid(f"Entail@{K} by the drawn truth, %", ("run", "what it is", f"E@{K}", "95 %"), left=2)
    for run, share in report.entail_at.items():
        runs.add_row(run, REVISED[run], _percent(share), _span(share))
    yield runs
    if report.gain is None:
        yield "nothing was added, so nothing could be trained with it"
    else:
        yield f"what was added changes it by {_percent(report.gain, '+')} points ({_span(report.gain, '+')})"


def _percent(share: Proportion, sign: str = "") -> str:
    return "–" if share.value is None else f"{100 * share.value:{sign}.1f}"


def _span(share: Proportion, sign: str = "") -> str:
    if share.low is None or share.high is None:
        return "–"
    return f"{100 * share.low:{sign}.1f} to {100 * share.high:{sign}.1f}"


def _finished(up_to_date: bool) -> str:
    return "nothing to do, finished before" if up_to_date else "finished"


def _written(up_to_date: bool) -> str:
    return "up to date" if up_to_date else "written"


def _numbers(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {reason}" for reason, number in counts.items()) or "none"


def _splits(counts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts["splits"].items()) or "none"
