"""`ctxr report`."""

from ctxr.cli.options import from_config
from ctxr.pipelines.report import Report


@from_config(Report)
def command(config: Report, as_json: bool) -> None:
    """Show a chain of artifacts as one page: sets, timelines, what was left out and why, distributions, provenance."""
    from ctxr.cli.render import Terminal, show_facts, show_json
    from ctxr.pipelines.report import run

    written = run(config, Terminal())
    if as_json:
        show_json(written)
        return
    where = f"in {written.folder}" if written.folder else "inside the page"
    rows = {
        "about": " → ".join(str(path) for path in written.chain),
        "sets": written.sets,
        "pictures": f"{written.pictures}, {where}" + (f", {len(written.missing)} missing" if written.missing else ""),
        "size": f"{written.bytes / 1e6:.1f} MB",
    }
    show_facts(f"{written.page}: written", rows)
