"""How the report of `ctxr demo` is shown."""

from collections.abc import Iterator

from rich.table import Table as Grid

from ctxr.cli.render import Block
from ctxr.cli.views import _grid, image_sets
from ctxr.synthetic.demo import MEANING, CrowdReport, DemoReport, K, ModelsReport, Proportion, RevisionReport
from ctxr.synthetic.demo import REVISION_MEANING as REVISED


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
        f"          {report.models.page}, with each model's choice and attention;\n"
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
