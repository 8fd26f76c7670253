"""`ctxr aggregate`."""

from ctxr.cli.options import from_config
from ctxr.pipelines.aggregate import Aggregate, AggregateReport


@from_config(Aggregate)
def command(config: Aggregate, as_json: bool) -> None:
    """Decide which descriptions are kept, measure accuracy and agreement on every basis, and write the dataset."""
    from ctxr.cli.render import Terminal, show_json
    from ctxr.errors import FindingsError
    from ctxr.pipelines.aggregate import run

    report = run(config, Terminal())
    if as_json:
        show_json(report)
    else:
        _show(report)
    if count := len(report.violations):
        raise FindingsError(
            f"{count} violation{'s' if count > 1 else ''} of the rules of assignment: {report.violations[0]}",
            hint=f"{report.dataset / 'certificate.json'} names each; publish it with the figures",
        )


def _show(report: AggregateReport) -> None:
    from ctxr.cli.render import show_facts, show_lines, show_table

    for table in report.tables.values():
        show_table(table)
    show_lines("to know", report.notes)
    show_lines("answers that break the rules of assignment", report.violations)
    counts = report.counts
    show_facts(
        "up to date" if report.up_to_date else "written",
        {
            "dataset": report.dataset,
            "sets": counts["sets"],
            "queries": counts["queries"],
            "judgments": counts["judgments"],
            "dropped": ", ".join(f"{count} {reason}" for reason, count in counts["dropped"].items()) or "none",
        },
    )
