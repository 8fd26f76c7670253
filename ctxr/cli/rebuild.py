"""`ctxr rebuild`."""

from ctxr.cli.options import from_config
from ctxr.pipelines.rebuild import Rebuild


@from_config(Rebuild, arguments=("recipe",))
def command(config: Rebuild, as_json: bool) -> None:
    """Make the images of a recipe again out of its videos and photos, which are recognised by content.

    The exit code is 4 when a set could not be made because a source is missing.
    """
    from ctxr.cli.render import Terminal, show_facts, show_json
    from ctxr.errors import PartialError
    from ctxr.pipelines.rebuild import run

    report = run(config, Terminal())
    counts = report.counts
    sets, images = (counts[name] + counts.get(f"{name}_left_out", 0) for name in ("sets", "images"))
    incomplete = PartialError(
        f"{sets - counts['sets']} of {sets} sets of the recipe could not be made",
        hint="--videos DIR with the missing sources, then the same command again",
    )
    if as_json:
        show_json(report)
        if counts["sets"] < sets:
            raise incomplete
        return
    rows = {
        "read": report.read,
        "sets": f"{counts['sets']} of {sets} sets of the recipe"
        + (", the others lack an image that could not be made" if counts["sets"] < sets else ""),
        "images": f"{counts['images']} of {images} images of the recipe: {counts['equal']} equal to it, {counts['different']} not",
        "failed": f"{counts['failed']} sources"
        + (f", reasons in {report.artifact}/failures.jsonl" if counts["failed"] else ""),
    }
    show_facts(f"{report.artifact}: {'nothing to do, finished before' if report.up_to_date else 'finished'}", rows)
    if counts["sets"] < sets:
        raise incomplete
