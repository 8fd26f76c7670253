"""The identity of a named model, by the content of its files and without building it."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from pkgutil import resolve_name

from ctxr.models.hub import IN_PLACES, from_root
from ctxr.store.hashing import sha256_file, sha256_of
from ctxr.store.memory import Watch, remembered

WEIGHTS = Path(__file__).parent / "weights"  # models inside this package, a folder each

_LIBRARIES = ("open_clip_torch", "torch", "torchvision", "transformers")
"""They decide the architecture and the preprocessing of models that are known by name alone, and untrained weights."""


def model_identity(name: str, workdir: Path) -> str:
    """SHA-256 over the files of an encoder, scorer or branch and what else decides its results, wherever the files are.

    `workdir`: project folder, which keeps the hashes of large files. Raises as `locate_model`, which may download weights.
    """
    kind, _, value = name.partition(":")
    if kind == "aligned":
        return sha256_of([kind, model_identity(value, workdir)])
    if files := _files(name):
        return sha256_of([kind, _hashes(files, workdir)])
    resolved, *found = _located(name, workdir)
    versions = {}
    for package in _LIBRARIES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return sha256_of([resolved, _hashes([Path(file) for file in found], workdir), versions])


def resolved_name(name: str, workdir: Path) -> str:
    """The name of a model as its library writes it; a place from the root; for `auto`, the encoder that was found."""
    return from_root(name) if name.startswith("aligned:") or _files(name) else _located(name, workdir)[0]


def _files(name: str) -> list[Path]:
    """The files of a model that is named by its place; none for a name that is looked up."""
    kind, colon, value = name.partition(":")
    if colon and kind not in IN_PLACES:
        return []
    place = Path(value) if value else WEIGHTS / name
    return [place] if place.is_file() else sorted(place.rglob("*"))


def _located(name: str, workdir: Path) -> list[str]:
    """What a name means here, and its files."""

    def find(watch: Watch) -> str:
        resolved, files = resolve_name("ctxr.models.families:locate_model")(name)
        watch(files)
        return "\n".join([resolved, *map(str, files)])

    return remembered(workdir, ["model", name], find).split("\n")


def _hashes(files: Sequence[Path], workdir: Path) -> list[tuple[str, str]]:
    """Name and content of each file; a file is hashed again only where it changed."""

    def digest(file: Path, watch: Watch) -> str:
        watch([file])
        return sha256_file(file)

    present = [file for file in files if file.is_file()]
    digests = (remembered(workdir, ["sha256", str(file.resolve())], partial(digest, file)) for file in present)
    return [(file.name, content) for file, content in zip(present, digests, strict=True)]
