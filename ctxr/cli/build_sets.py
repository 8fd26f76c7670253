"""`ctxr build-sets`."""

from ctxr.cli.options import from_config
from ctxr.pipelines.build_sets import BuildSets


@from_config(BuildSets, arguments=("sources",))
def command(config: BuildSets, as_json: bool) -> None:
    """From videos and photos to sets of ten minimally contrastive images."""
    from ctxr.cli import sets
    from ctxr.cli.render import Terminal
    from ctxr.pipelines.build_sets import run

    sets.show(run(config, Terminal()), as_json)
