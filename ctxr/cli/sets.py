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
        "looked at": _looked_at(counts),
        "in no set": ", ".join(f"{number} {reason}" for reason, number in counts["reasons"].items()) or "none",
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


def _looked_at(counts: dict[str, int]) -> str:
    """How many frames and photos were sampled, how many of them the encoder saw, how many were judged for quality."""
    measured = f", {counts['measured']} measured for quality" if counts["measured"] else ""
    return f"{counts['considered']} sampled frames and photos, {counts['embedded']} embedded{measured}"


def _sources(counts: dict[str, int]) -> str:
    parts = []
    if counts["videos"]:
        parts.append(f"{_many(counts, 'videos')} ({_many(counts, 'frames')}, {_many(counts, 'shots')})")
    if counts["albums"]:
        parts.append(f"{_many(counts, 'albums')} ({_many(counts, 'photos')})")
    if counts["failed"]:
        parts.append(f"{counts['failed']} failed")
    return ", ".join(parts)


def _many(counts: dict[str, int], things: str) -> str:
    return f"{counts[things]} {things if counts[things] != 1 else things.removesuffix('s')}"
