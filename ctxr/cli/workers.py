"""`ctxr workers`."""

from ctxr.cli.options import from_config
from ctxr.pipelines.workers import Workers


@from_config(Workers)
def command(config: Workers, as_json: bool) -> None:
    """Say how good each worker is and how sure that is; block, allow, or take it back, each with a reason."""
    from ctxr.cli.render import Terminal, show_json, show_lines, show_table
    from ctxr.pipelines.workers import run

    report = run(config, Terminal())
    if as_json:
        show_json(report)
        return
    show_lines("changed", report.changed)
    show_table(report.table)
    show_lines(
        "changes of standing",
        [
            f"{one.at} {one.worker}: {one.before} → {one.after} by {one.by}: {one.reason}"
            + (" (undone)" if one.undone else "")
            for one in report.changes
        ],
    )
    show_lines(
        "waited for a talk that could not be, to be paid",
        [f"{one.worker}: {one.seconds:.0f} s, {one.reason.replace('_', ' ')} ({one.at})" for one in report.waited],
    )
