"""`ctxr rebuild`."""

from ctxr.cli.options import from_config
from ctxr.pipelines.rebuild import Rebuild


@from_config(Rebuild, arguments=("recipe",))
def command(config: Rebuild, as_json: bool) -> None:
    """Make the images of a recipe again out of its videos and photos, which are recognised by content."""
    from ctxr.cli.render import Terminal, show_facts, show_json
    from ctxr.pipelines.rebuild import run

    report = run(config, Terminal())
    if as_json:
        show_json(report)
        return
    counts = report.counts
    rows = {
        "read": report.read,
        "sets": f"{counts['sets']}, {counts['sets_left_out']} left out because an image of theirs could not be made",
        "images": f"{counts['images']}: {counts['equal']} equal to the recipe, {counts['different']} not",
        "failed": f"{counts['failed']} sources"
        + (f", reasons in {report.artifact}/failures.jsonl" if counts["failed"] else ""),
    }
    show_facts(f"{report.artifact}: {'nothing to do, finished before' if report.up_to_date else 'finished'}", rows)
