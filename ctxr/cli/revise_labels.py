"""`ctxr revise-labels`."""

from ctxr.cli.options import from_config
from ctxr.pipelines.revise_labels import ReviseLabels


@from_config(ReviseLabels, arguments=("dataset",))
def command(config: ReviseLabels, as_json: bool) -> None:
    """Find captions that also hold for other pictures, by entailment, and add them as a round of judgments, or take it back."""
    from ctxr.cli.render import Terminal, show_facts, show_json, show_lines, show_table
    from ctxr.pipelines.revise_labels import run

    report = run(config, Terminal())
    if as_json:
        show_json(report)
        return
    for table in report.tables.values():
        show_table(table)
    show_lines("to know", report.notes)
    show_facts(report.did, report.facts)
