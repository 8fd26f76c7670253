"""`ctxr listen`."""

from ctxr.cli.options import from_config
from ctxr.pipelines.listen import Listen


@from_config(Listen, arguments=("dataset",))
def command(config: Listen, as_json: bool) -> None:
    """Let a multimodal language model find the picture of each description, through an OpenAI-compatible endpoint.

    The key comes from the environment alone. The exit code is 4 when --max-cost ended it before every query was answered.
    """
    from ctxr.cli.render import Terminal, show_facts, show_json, show_lines, show_table
    from ctxr.errors import PartialError
    from ctxr.pipelines.listen import run

    report = run(config, Terminal())
    partial = PartialError(
        f"--max-cost ended the run: {report.answered} of {report.requests} requests were answered",
        hint="run the same command with a larger --max-cost: it goes on where it was",
    )
    stopped = not report.complete and not report.dry_run
    if as_json:
        show_json(report)
        if stopped:
            raise partial
        return
    for table in report.tables:
        show_table(table)
    show_lines("to know", report.notes)
    rows = {
        "run": report.run,
        "dataset": report.dataset,
        "model": report.model,
        "queries": f"{report.queries:,}",
        "requests": f"{report.requests:,}, answered {report.answered:,}",
        "replies": ", ".join(f"{name} {count}" for name, count in report.outcomes.items()) or "none yet",
        "tokens": f"{report.tokens_in:,} sent, {report.tokens_out:,} answered",
        "cost": f"{report.cost:.4f}",
        "accuracy": "–" if report.accuracy is None else f"{report.accuracy:.3f}",
    }
    if report.dry_run:
        rows |= {"tokens": f"about {report.tokens_in:,} to send, at most {report.tokens_out:,} answered"}
        rows |= {"cost": f"about {report.cost:.4f} for what is not answered yet"}
    written = "partial" if stopped else "up to date" if report.up_to_date else "written"
    show_facts("would ask" if report.dry_run else written, rows)
    if stopped:
        raise partial
