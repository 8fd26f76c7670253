"""`ctxr push`: an artifact elsewhere, its files named by their SHA-256, its manifest last."""

from contextlib import suppress
from pathlib import Path

import msgspec

from ctxr.datasets.changes import contents
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.units import parallel
from ctxr.errors import DataError, DryRun, UsageError, plural
from ctxr.pipelines.sharing.config import Push, TransferReport
from ctxr.store.artifacts import MANIFEST, MARKER, Manifest, open_artifact
from ctxr.store.atomic import DRY_RUN
from ctxr.store.hashing import sha256_bytes, sha256_file
from ctxr.store.remote import AT_ONCE, OBJECTS, READ_ONLY, NotThereError, Store, shown
from ctxr.store.tables import UNREADABLE


def run(config: Push, progress: Progress = SILENT) -> TransferReport:
    """Send what is not there yet. Raises UsageError for a URL that cannot be written to, or holds an artifact of another kind without
    --yes; UnfinishedError for what is no finished artifact; DataError for a file that was changed since it was written."""
    (name, url), there = config.check().places, dict[str, int]()
    artifact, store = open_artifact(Path(name)), Store(url)
    if store.scheme in READ_ONLY:
        raise UsageError(f"{store.scheme}:// addresses are only read", hint="push to s3://, gs:// or file://")
    files, folder = contents(artifact), artifact.path.resolve()
    with suppress(NotThereError):
        there = {file.inside: file.bytes for file in store.files()}
    kind = artifact.manifest.kind
    before = _manifest(store, {*there}, config, kind)
    missing: dict[str, Path] = {}
    for name, digest in files.items():
        file = (folder / name).resolve()
        if not (file.is_file() and file.is_relative_to(folder)):
            raise artifact.changed_error(name)
        if there.get(f"{OBJECTS}/{digest}") != file.stat().st_size:
            missing[digest] = folder / name
    size = sum(file.stat().st_size for file in missing.values())
    if DRY_RUN.get():
        raise DryRun(
            f"would send {plural(len(missing), 'file')} to {shown(url)}", {"files": len(missing), "bytes": size}
        )

    def send(row: tuple[str, Path]) -> int:
        digest, file = row
        if sha256_file(file) != digest:
            raise artifact.changed_error(file.relative_to(folder).as_posix())
        store.send(file, f"{OBJECTS}/{digest}")
        return file.stat().st_size

    with progress.task("sending, MiB", size / 2**20) as task:
        for _, sent in parallel(send, missing.items(), AT_ONCE):
            task.advance(sent / 2**20)
    manifest = (folder / MANIFEST).read_bytes()
    if sha256_bytes(manifest) != artifact.sha256:
        raise DataError(f"{artifact.path} was made again meanwhile", hint="run the same command again")
    if manifest != before:
        store.write(MANIFEST, manifest)
    return TransferReport(artifact.path, shown(url), kind, len(files), len(missing), size)


def _manifest(store: Store, there: set[str], config: Push, kind: str) -> bytes:
    """The manifest of what was pushed to the URL before; nothing where there is none. Raises UsageError for anything else."""
    # only what was pushed keeps its files by their hash: a manifest beside anything else is that of an artifact in use
    if {MANIFEST, MARKER} & there and not any(name.startswith(f"{OBJECTS}/") for name in there):
        raise UsageError(
            f"{shown(store.url)} is an artifact that commands read, not a copy", hint="push to another URL"
        )
    before = store.read(MANIFEST) if MANIFEST in there else b""
    if before and not config.yes and _kind(before) != kind:
        raise UsageError(f"{shown(store.url)} holds no {kind} but something else", hint="another URL, or --yes")
    return before


def _kind(manifest: bytes) -> str:
    """The kind of artifact that a manifest describes; "" where it describes none."""
    try:
        return msgspec.json.decode(manifest, type=Manifest).kind
    except UNREADABLE:
        return ""
