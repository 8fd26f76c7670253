"""`ctxr verify`."""

from ctxr.cli.options import from_config
from ctxr.pipelines.verify import Verify

MOST_SHOWN = 20
"""Images that are named on the terminal; `--json` names all."""


@from_config(Verify, arguments=("artifact",))
def command(config: Verify, as_json: bool) -> None:
    """Prove that the images of a recipe or an artifact are those of their sources, or name each that is not.

    Every video frame is decoded again; a photo is looked up among the sources by its hash.
    """
    from ctxr.cli.render import Terminal, show_facts, show_json, stdout
    from ctxr.errors import FindingsError
    from ctxr.pipelines.verify import run

    report = run(config, Terminal())
    if as_json:
        show_json(report)
    else:
        rows = {
            "kind": report.kind,
            "equal": f"{report.equal} of {report.images} images",
            "different": len(report.differences),
            "not compared": len(report.unproven),
        }
        rows |= {f"source {name}": why for name, why in report.sources.items()}
        if report.software:
            rows["versions"] = report.software
        show_facts(str(report.artifact), rows)
        for row in report.differences[:MOST_SHOWN]:
            far = "" if row["distance"] is None else f" (pixel values up to {row['distance']} apart)"
            stdout().print(f"{row['id']}: {row['what']}: {row['message']}{far}", markup=False)
        if len(report.differences) > MOST_SHOWN:
            stdout().print(f"… and {len(report.differences) - MOST_SHOWN} more: --json names all", markup=False)
    if report.differences or report.unproven:
        raise FindingsError(
            f"{len(report.differences)} images differ, {len(report.unproven)} could not be compared",
            hint="--videos DIR names the folder where the sources lie now" if report.unproven else "",
        )
