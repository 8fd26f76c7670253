"""What `ctxr demo` says of revised labels."""

from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from rich.console import Console

    from ctxr.pipelines.demo_revision import RevisionReport, Share


def show(report: "RevisionReport", console: "Console") -> None:
    """Classifier, round, people and retrieval, each next to what is known."""
    from ctxr.pipelines.demo_revision import MEANING, K

    quality = ", ".join(f"{name} {percent(share)}" for name, share in report.classifier.items())
    kappa = ", ".join(f"{name} {'undefined' if one is None else f'{one:.2f}'}" for name, one in report.kappa.items())
    console.print(
        f"\n[bold]revised[/]   an entailment classifier learned from {report.learned} drawn pictures, too few for a good one; on "
        f"{report.judged} pairs of others, %:\n"
        f"          {quality}\n"
        f"          {report.added} of {report.candidates:,} candidates for {report.pictures} pictures were added, at a probability of "
        f"{report.threshold:.3f} or more\n"
        f"          simulated people gave {report.answers} answers on {report.looked} of them; {kappa}"
    )
    table = Table(title="what was added, %", title_justify="left", title_style="bold")
    for name in ("", "by people", "95 %", "as drawn"):
        table.add_column(name, justify="left" if not name else "right")
    for one in report.reliable:
        drawn = "–" if one.drawn is None else f"{100 * one.drawn:.1f}"
        table.add_row(one.name, percent(one.people), span(one.people), drawn)
    console.print(table)
    console.print(
        f"recall is that among the candidates; {report.doubtful} of them are too close to call and count neither way in what was drawn"
    )
    runs = Table(title=f"Entail@{K} by the drawn truth, %", title_justify="left", title_style="bold")
    for name in ("run", "what it is", f"E@{K}", "95 %"):
        runs.add_column(name, justify="left" if len(runs.columns) < 2 else "right")
    for run, share in report.entail_at.items():
        runs.add_row(run, MEANING[run], percent(share), span(share))
    console.print(runs)
    if report.gain is None:
        console.print("nothing was added, so nothing could be trained with it")
    else:
        console.print(f"what was added changes it by {percent(report.gain, '+')} points ({span(report.gain, '+')})")


def percent(share: "Share", sign: str = "") -> str:
    """A share in percent."""
    return "–" if share.value is None else f"{100 * share.value:{sign}.1f}"


def span(share: "Share", sign: str = "") -> str:
    """Its interval."""
    if share.low is None or share.high is None:
        return "–"
    return f"{100 * share.low:{sign}.1f} to {100 * share.high:{sign}.1f}"
