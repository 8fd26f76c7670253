"""`ctxr filter`."""

from ctxr.cli.options import from_config
from ctxr.pipelines.filter import Filter


@from_config(Filter)
def command(config: Filter, as_json: bool) -> None:
    """Take out blurry, text-heavy or small images, and fill the gaps."""
    from ctxr.cli import sets
    from ctxr.cli.render import Terminal
    from ctxr.pipelines.filter import run

    sets.show(run(config, Terminal()), as_json)
