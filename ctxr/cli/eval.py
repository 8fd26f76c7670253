"""`ctxr eval`."""

from ctxr.cli.options import from_config
from ctxr.pipelines.eval import Eval


@from_config(Eval, arguments=("runs",))
def command(config: Eval, as_json: bool) -> None:
    """Say how often runs find the right image, how sure that is, where they fail, and which of them is better."""
    from ctxr.cli.render import Terminal, show_facts, show_json, show_lines, show_table
    from ctxr.pipelines.eval import run

    report = run(config, Terminal())
    if as_json:
        show_json(report)
        return
    for table in report.tables.values():
        show_table(table)
    show_lines("to know", report.notes)
    rows = {"results": report.results, "dataset": report.dataset, "runs": ", ".join(report.runs)}
    show_facts("up to date" if report.up_to_date else "written", rows)
