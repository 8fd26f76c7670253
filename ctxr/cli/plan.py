"""`ctxr plan`."""

from ctxr.cli.options import from_config
from ctxr.pipelines.plan import Plan


@from_config(Plan)
def command(config: Plan, as_json: bool) -> None:
    """Forecast what asking the crowd takes: units, answers, cost with fees, hours, pay per hour; refuses to pay below a floor."""
    from ctxr.cli.render import Terminal, show_json, show_lines, show_table
    from ctxr.pipelines.plan import as_table, run

    report = run(config, Terminal())
    if as_json:
        show_json(report)
        return
    show_table(as_table(report))
    show_lines("assumed", report.notes)
