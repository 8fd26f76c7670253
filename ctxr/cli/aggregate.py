"""`ctxr aggregate`."""

from ctxr.cli.options import from_config
from ctxr.pipelines.aggregate import Aggregate


@from_config(Aggregate)
def command(config: Aggregate, as_json: bool) -> None:
    """Decide which descriptions are kept, measure accuracy and agreement on every basis, and write the dataset."""
    from ctxr.cli.render import Terminal, show_facts, show_json, show_lines, show_table
    from ctxr.pipelines.aggregate import run

    report = run(config, Terminal())
    if as_json:
        show_json(report)
        return
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
