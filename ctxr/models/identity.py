"""The identity of a named model, by the content of its files and without building it."""

from collections.abc import Iterator, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from pkgutil import resolve_name

from ctxr.models.hub import IN_PLACES, LITE, architectures, from_root
from ctxr.store.hashing import sha256_file, sha256_of
from ctxr.store.memory import Watch, remembered

WEIGHTS = Path(__file__).parent / "weights"  # models inside this package, a folder each


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
    versions = {package: version(package) for package in _packages(resolved)}
    return sha256_of([resolved, _hashes([Path(file) for file in found], workdir), versions])


def resolved_name(name: str, workdir: Path) -> str:
    """The name as its library writes it; a place from the root; for `auto`, the encoder found."""
    return from_root(name) if name.startswith("aligned:") or _files(name) else _located(name, workdir)[0]


def _files(name: str) -> list[Path]:
    """The files of a model that is named by its place; none for a name that is looked up."""
    kind, colon, value = name.partition(":")
    if colon and kind not in IN_PLACES:
        return []
    place = Path(value) if value else WEIGHTS / name
    return [place] if place.is_file() else sorted(place.rglob("*"))


def _packages(name: str) -> Iterator[str]:
    """Packages that decide what a model without files of its own does: architecture, tokens."""
    kind, _, value = name.partition(":")
    yield "torch"
    if kind == "faster-rcnn":
        yield "torchvision"
    elif name == LITE:
        yield from ("timm", "torchvision", "transformers")
    elif kind in IN_PLACES or value.startswith(("bert", "blip", "albef")):
        yield "transformers"
    elif not value.startswith(("vilbert", "uniter")):
        yield "open_clip_torch"
        arch = (value if kind == "random" else kind).replace("/", "-")
        file = architectures() / f"{arch}.json"
        config = file.read_text(encoding="utf-8") if file.is_file() else ""
        yield from (package for key, package in (("timm_", "timm"), ("hf_", "transformers")) if f'"{key}' in config)


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
