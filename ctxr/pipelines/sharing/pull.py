"""`ctxr pull`: an artifact that `ctxr push` sent elsewhere, every file compared with its hash, in place at once."""

import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ctxr.datasets.changes import changed, contents
from ctxr.engine.history import part_of_run
from ctxr.engine.progress import SILENT, Progress, ProgressTask
from ctxr.engine.stage import staged_folder
from ctxr.engine.units import parallel
from ctxr.errors import DataError, DryRun, UnfinishedError, UsageError
from ctxr.pipelines.sharing.config import Pull, TransferReport
from ctxr.store.artifacts import MANIFEST, Artifact, locked, open_artifact, require_ours
from ctxr.store.atomic import DRY_RUN, disk_errors, link_or_copy, write_bytes
from ctxr.store.hashing import sha256_bytes, sha256_if_readable
from ctxr.store.kinds import IMAGE_SETS
from ctxr.store.remote import AT_ONCE, OBJECTS, NotThereError, Store, shown
from ctxr.store.tables import pretty_json

PULLING = ".pulling"
"""Folder inside an artifact with what was fetched so far, by SHA-256, which an interrupted run leaves to the next."""


def run(config: Pull, progress: Progress = SILENT) -> TransferReport:
    """Fetch what is not here yet. Raises UnfinishedError where no artifact is there, DataError for one that does not match its hashes or
    names files outside its folder, UsageError for a folder of other files, or, without --yes, with another artifact."""
    url, out = config.check().places[0], config.folder()
    store = Store(url)
    try:
        manifest = store.read(MANIFEST)
    except NotThereError as error:
        raise UnfinishedError(f"{shown(url)} holds no artifact", hint="check the address, or push again") from error
    require_ours(out, "ctxr pull URL FOLDER")
    here = open_artifact(out) if (out / MANIFEST).is_file() else None
    same = here is not None and here.sha256 == sha256_bytes(manifest)
    if here and not same and not config.yes:
        raise UsageError(f"{out} holds another artifact: {here.manifest.kind}", hint="name another folder, or --yes")
    with part_of_run(config) as made:
        if here and same and not changed(here):
            made.artifacts[out] = True
            if not DRY_RUN.get():
                shutil.rmtree(out / PULLING, ignore_errors=True)  # of a killed run
            return TransferReport(out, shown(url), here.manifest.kind, len(contents(here)), 0, 0)
        if DRY_RUN.get():
            raise DryRun(f"would write {out}")
        with locked(out), disk_errors(out):
            report = _fetch(store, out, manifest, here, progress)
        made.artifacts[out] = False
    return report


def _fetch(store: Store, out: Path, manifest: bytes, here: Artifact | None, progress: Progress) -> TransferReport:
    """Put the artifact with this manifest into `out`, in place of the one that is `here`."""
    halves, before = out / PULLING, contents(here) if here else {}
    write_bytes(halves / MANIFEST, manifest)
    pulled = open_artifact(halves)
    if pretty_json(pulled.manifest.sealed()) != manifest:
        raise DataError(
            f"{shown(store.url)}/{MANIFEST} was changed since it was written", hint="push the artifact again"
        )
    sizes: dict[str, int] = {}

    def get(row: tuple[str, str]) -> None:
        name, digest = row
        half, whole = halves / f"{digest}.part", halves / digest
        if sha256_if_readable(whole) == digest:
            return
        if before.get(name) == digest == sha256_if_readable(out / name):
            link_or_copy(out / name, whole)
            return
        with suppress(NotThereError):
            store.copy(half, f"{OBJECTS}/{digest}")
        if sha256_if_readable(half) != digest:
            half.unlink(missing_ok=True)
            raise DataError(f"{shown(store.url)}: {name} is damaged or missing", hint="push the artifact again")
        half.replace(whole)
        sizes[digest] = whole.stat().st_size

    def fetch(files: Mapping[str, str], folder: Path, task: ProgressTask) -> None:
        rows = {digest: (name, digest) for name, digest in files.items()}.values()
        for _ in parallel(get, rows, AT_ONCE, stop=store.stopping.set):
            task.advance()
        for name, digest in files.items():
            link_or_copy(halves / digest, folder / name)

    with staged_folder(out) as folder, progress.task("fetching files", None) as task:
        fetch(listed := contents(pulled), folder, task)
        files = contents(
            Artifact(folder, pulled.manifest, pulled.sha256)
        )  # with the pictures of the tables that have come
        fetch({name: digest for name, digest in files.items() if name not in listed}, folder, task)
        if pulled.manifest.kind == IMAGE_SETS and "failures.jsonl" not in files:
            write_bytes(folder / "failures.jsonl", b"")  # its rows are about files of the machine that made it
        write_bytes(folder / MANIFEST, manifest)
    for name in before.keys() - files.keys():
        (out / name).unlink(missing_ok=True)
    shutil.rmtree(halves)
    return TransferReport(out, shown(store.url), pulled.manifest.kind, len(files), len(sizes), sum(sizes.values()))
