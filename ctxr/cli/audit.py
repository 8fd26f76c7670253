"""`ctxr audit`."""

from ctxr.cli.options import from_config
from ctxr.pipelines.audit import Audit


@from_config(Audit, arguments=("dataset",))
def command(config: Audit, as_json: bool) -> None:
    """Try rules that never read a description: each must stay at chance, or the benchmark has a shortcut.

    The images of a video set lie in one shot in the order of time, so its first and last image are the ones nearest to the
    start and the end of the shot. Photos have no order but one: the first is the anchor that the others were found by.
    """
    from rich.markup import escape

    from ctxr.cli.render import Terminal, show_json, show_lines, show_table, stdout
    from ctxr.errors import FindingsError
    from ctxr.pipelines.audit import as_table, run

    report = run(config, Terminal())
    if as_json:
        show_json(report)
    else:
        stdout().print(f"[bold]{escape(report.dataset)}[/]")
        if report.verdicts:
            show_table(as_table(report))
        show_lines("cannot be tried", report.missing)
        show_lines("to know", report.notes)
    flagged = [verdict for verdict in report.verdicts if verdict.flagged]
    if flagged:
        named = ", ".join(f"{one.rule} on {one.part}" for one in flagged)
        raise FindingsError(
            f"{len(flagged)} shortcut{'s' if len(flagged) > 1 else ''} above chance: {named}",
            hint="look at how targets were drawn and frames ordered, or report the shortcut with the benchmark",
        )
