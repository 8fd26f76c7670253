"""`ctxr export-tasks`."""

from ctxr.cli.options import from_config
from ctxr.pipelines.export_tasks import ExportTasks


@from_config(ExportTasks, arguments=("task",))
def command(config: ExportTasks, as_json: bool) -> None:
    """Write what the crowd is asked: describe, retrieve, dialogue, verify, tag, entail or audit, for our own server or a platform."""
    from ctxr.cli.render import Terminal, show_facts, show_json
    from ctxr.pipelines.export_tasks import run

    report = run(config, Terminal())
    if as_json:
        show_json(report)
        return
    rows = {
        "task": report.task,
        "for": report.backend,
        "units": f"{report.units}, {report.votes} answers at most",
        **({"checks": f"{report.checks} units that test the worker"} if report.checks else {}),
        **({"files": ", ".join(report.files)} if report.files else {}),
        **({"launched": " ".join(report.notes)} if report.notes else {}),
    }
    show_facts(f"{report.tasks}: {'nothing to do, finished before' if report.up_to_date else 'finished'}", rows)
