"""How a report on image sets is shown, by `build-sets` and by `filter`."""

from ctxr.cli.render import show_facts, show_json, stdout
from ctxr.pipelines.sets_report import SetsReport


def show(report: SetsReport, as_json: bool) -> None:
    """The result: where it is, what is in it, why the rest is not."""
    if as_json:
        show_json(report)
        return
    counts = report.counts
    rows = {
        "sets": f"{counts['sets']} ({counts['video_sets']} from video, {counts['photo_sets']} from photos)",
        "images": counts["images"],
        "sources": _sources(counts),
        "considered": f"{counts['considered']}, embedded {counts['embedded']}, measured {counts['measured']}",
        "not kept": ", ".join(f"{reason} {number}" for reason, number in counts["reasons"].items()) or "nothing",
        "splits": ", ".join(f"{name} {number}" for name, number in counts["splits"].items()) or "none",
        "encoder": f"{report.encoder}, threshold {report.threshold:g}",
    }
    if report.read is not None:
        rows = {"read": report.read} | rows
    if report.failures:
        rows["failed"] = f"{len(report.failures)}, reasons in {report.artifact / 'failures.jsonl'}"
    state = "nothing to do, finished before" if report.up_to_date else "finished"
    show_facts(f"{report.artifact}: {state}", rows)
    if report.curve is not None:
        most = max(report.curve.values(), default=0)
        stdout().print("\n[bold]sets per threshold[/] (video, before quality)")
        for threshold, sets in report.curve.items():
            mark = "◀" if threshold == f"{report.threshold:.4g}" else ""
            stdout().print(f"{threshold:>8} {sets:>6} {'█' * round(40 * sets / most) if most else ''} {mark}")


def _sources(counts: dict[str, int]) -> str:
    parts = []
    if counts["videos"]:
        parts.append(f"{counts['videos']} videos ({counts['frames']} frames, {counts['shots']} shots)")
    if counts["albums"]:
        parts.append(f"{counts['albums']} albums ({counts['photos']} photos)")
    if counts["failed"]:
        parts.append(f"{counts['failed']} failed")
    return ", ".join(parts)
