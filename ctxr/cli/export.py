"""`ctxr export`."""

from ctxr.cli.options import from_config
from ctxr.pipelines.export import Export


@from_config(Export)
def command(config: Export, as_json: bool) -> None:
    """Write image sets in a format that others read: imagecode, hf, webdataset, croissant, fiftyone, recipe."""
    from ctxr.cli.render import Terminal, show_facts, show_json
    from ctxr.pipelines.export import run

    report = run(config, Terminal())
    if as_json:
        show_json(report)
        return
    counts = report.counts
    rows = {
        "read": report.read,
        "format": report.to,
        "sets": f"{counts['sets']}, {counts['images']} images, {counts['queries']} queries",
        "splits": ", ".join(f"{name} {number}" for name, number in counts["splits"].items()) or "none",
        "left out": " ".join(report.left_out) or "nothing",
        **({"notes": " ".join(report.notes)} if report.notes else {}),
        "card": report.export / "README.md",
    }
    show_facts(f"{report.export}: {'nothing to do, finished before' if report.up_to_date else 'finished'}", rows)
