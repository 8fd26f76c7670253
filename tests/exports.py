"""Exports and rebuilds as the tests start them, and how a stranger forges what was written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ctxr.pipelines.curation.config import Rebuild, RebuildReport
from ctxr.pipelines.curation.rebuild import run as run_rebuild
from ctxr.pipelines.sharing.config import Export, ExportReport
from ctxr.pipelines.sharing.export import run as run_export
from ctxr.store.hashing import sha256_file


def export(sets: Path, out: Path, to: str, **options: Any) -> ExportReport:
    """Run an export."""
    return run_export(Export(to=to, input=sets, out=out, **options))


def rebuild(recipe: Path, videos: Path | None, out: Path) -> RebuildReport:
    """Run a rebuild."""
    return run_rebuild(Rebuild(recipe=recipe, videos=videos, out=out))


def forge(table: Path, change: Callable[[str], str]) -> None:
    """Change a table, and its hash in the manifest: whoever forges the one can forge the other."""
    before = sha256_file(table)
    table.write_text(change(table.read_text()))
    manifest = table.parent / "manifest.json"
    manifest.write_text(manifest.read_text().replace(before, sha256_file(table)))
