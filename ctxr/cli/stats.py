"""`ctxr stats`."""

from ctxr.cli.options import from_config
from ctxr.pipelines.stats import Stats


@from_config(Stats, arguments=("dataset",))
def command(config: Stats, as_json: bool) -> None:
    """Describe a benchmark, ours or a published one: counts, language, positions, distances, phenomena, leakage."""
    from rich.markup import escape

    from ctxr.cli.render import Terminal, show_json, show_lines, show_table, stdout
    from ctxr.pipelines.stats import run

    report = run(config, Terminal())
    if as_json:
        show_json(report)
        return
    stdout().print(f"[bold]{escape(report.dataset)}[/]")
    for table in report.tables.values():
        show_table(table)
    show_lines("cannot be said", report.missing)
    show_lines("to know", report.notes)
