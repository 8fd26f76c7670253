"""Names of encoders, and their files: weights that open_clip knows, and folders of the hub."""

import re
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, TypeVar

from ctxr.errors import CtxrError, UsageError, did_you_mean, first_line, some
from ctxr.store.paths import without_folder

PATIENCE = 2.0  # seconds that a host may take to answer before weights count as out of reach

T = TypeVar("T")

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")

RESNETS = ("resnet50", "resnet152")
"""Image towers of torchvision."""

# kinds of models whose names may contain the place of their files, as `blip:FOLDER`
IN_PLACES = (
    "local-dir", "checkpoint", "volta", "albef", "bert", "late", "t5", "blip", "nli", "faster-rcnn", "classifier", "toy",
    *RESNETS,
)  # fmt: skip

# first parts of the names of encoders of pairs; all others are open_clip's
PAIR_ENCODERS = ("blip:", "volta:", "random:blip", "random:vilbert", "random:uniter")


def makes_pairs(name: str) -> bool:
    """Whether an encoder of that name reads image and text together, not each by itself."""
    return name.startswith(PAIR_ENCODERS)


DEFAULT_ENCODER = "ViT-B-32:openai"

LITE, TINY = "ctxr-lite", "ctxr-tiny"
"""The encoder made of two wheels of the package index, and the one inside this package."""

MINILM = "minilm"
"""The text tower of ctxr-lite alone, where a folder of transformers is named."""

STAND_INS = {
    LITE: "it can be used on real photos, but finds fewer of them by text than CLIP",
    TINY: "it was trained on drawn scenes, so use it to try ctxr out, not for a dataset that you publish",
}
"""What users must know of encoders that replace CLIP where it is not available."""

BLIP_TINY = "random:blip-tiny"
"""BLIP with untrained weights from a fixed seed, for tests and nothing else."""


def is_blip(name: str) -> bool:
    """Whether a name is one that `load_blip` takes."""
    return name.startswith("blip:") or name == BLIP_TINY


def placeless(name: str) -> str:
    """The name of a model with the last part alone of its folder or file."""
    return without_folder(from_root(name))


def from_root(name: str) -> str:
    """The name of a model or file, with an absolute path where it ends in a path that exists."""
    kind, colon, value = name.rpartition(":")
    is_folder = kind.removeprefix("aligned:") in IN_PLACES and Path(value).is_dir()
    return f"{kind}{colon}{Path(value).resolve()}" if is_folder or Path(value).is_file() else name


def architectures() -> Path:
    """The folder of open_clip's architectures, a JSON file each, without loading it."""
    package = find_spec("open_clip")
    return Path(package.origin if package and package.origin else "").with_name("model_configs")


class PretrainedName(NamedTuple):
    """A name of open_clip's weights, `arch:pretrained`."""

    arch: str
    tag: str


def split_name(name: str) -> PretrainedName:
    """The parts of a name, in open_clip's spelling. Raises UsageError for an unknown one."""
    import open_clip

    arch, _, tag = name.partition(":")
    arch, tag = arch.replace("/", "-"), tag.lower().replace("-", "_")
    pairs = {f"{known_arch}:{known_tag}" for known_arch, known_tag in open_clip.list_pretrained()}
    if f"{arch}:{tag}" in pairs:
        return PretrainedName(arch, tag)
    tags = sorted(pair for pair in pairs if pair.startswith(f"{arch}:"))
    if not tag and tags:
        first = some(sorted(tags, key=lambda pair: not pair.endswith(":openai")))
        raise UsageError(f"encoder {name!r} does not say which weights", hint=f"name them, such as {first}")
    known = sorted(pairs | {TINY, LITE, "auto"})
    hint = did_you_mean(f"{arch}:{tag}", known, "names are arch:pretrained, e.g. ViT-B-32:openai", most=3)
    raise UsageError(f"unknown encoder {name!r}", hint=hint)


def cached_weights(arch: str, tag: str) -> Path | None:
    """The weights' file if it is on this machine, else None; asks no host."""
    import huggingface_hub
    import open_clip

    config = open_clip.get_pretrained_cfg(arch, tag)
    for place in _hub_files(config):
        repo, _, file = place.rpartition("/")
        if isinstance(path := huggingface_hub.try_to_load_from_cache(repo, file), str):
            return Path(path)
    url = str(config.get("url") or "")
    older = Path("~/.cache/clip").expanduser() / url.rpartition("/")[2]
    return older if url and older.is_file() else None


def fetched_weights(arch: str, tag: str) -> Path:
    """The weights' file, downloaded if needed. Raises CtxrError where it cannot be downloaded."""
    import open_clip
    from open_clip.pretrained import download_pretrained

    if cached := cached_weights(arch, tag):
        return cached
    config = open_clip.get_pretrained_cfg(arch, tag)
    hint = "connect to the network once, or name ctxr-lite, ctxr-tiny or local-dir:PATH: --encoder NAME, for ctxr train --set encoder=NAME"
    files = _hub_files(config)
    address = _hub_address(files[0]) if files else str(config.get("url") or "")
    return Path(_downloaded(f"the weights of {arch}:{tag}", lambda: download_pretrained(config), address, hint))


def hub_folder(kind: str, repository: str, is_whole: Callable[[Path], bool], patterns: Sequence[Sequence[str]]) -> Path:
    """The folder of a hub's repository "OWNER/NAME" in its cache, downloaded if missing.

    `kind`: the part before the name, e.g. "blip". `is_whole`: whether the cache holds everything; a download may have been cut off.
    `patterns`: of files to download; the next ones where the folder is not whole without.

    Raises UsageError for any other name, CtxrError for files that cannot be downloaded.
    """
    import huggingface_hub

    if not _HUB_NAME.fullmatch(repository):
        raise UsageError(f"there is no folder {repository}", hint=f"{kind}:DIRECTORY, or {kind}:OWNER/NAME of the hub")
    cached = huggingface_hub.try_to_load_from_cache(repository, "config.json")
    if isinstance(cached, str) and is_whole(Path(cached).parent):
        return Path(cached).parent

    def fetch() -> Path:
        for pattern in patterns:
            folder = Path(huggingface_hub.snapshot_download(repository, allow_patterns=[*pattern]))
            if is_whole(folder):
                break
        return folder

    address = _hub_address(f"{repository}/config.json")
    hint = f"connect to the network once, or give the folder: {kind}:DIRECTORY; {repository} is not a folder here"
    return _downloaded(f"the files of {kind}:{repository}", fetch, address, hint)


def _downloaded(what: str, fetch: Callable[[], T], address: str, hint: str) -> T:
    """What `fetch` gives. Raises CtxrError where the host of `address` does not answer, or the download failed."""
    if not can_reach(address, PATIENCE):
        raise CtxrError(f"{what} are not on this machine and cannot be downloaded", hint=hint)
    try:
        return fetch()
    except Exception as error:  # whatever the network or the hub's client comes up with
        raise CtxrError(f"{what} could not be downloaded: {first_line(error)}", hint=hint) from error


def can_reach(address: str, patience: float) -> bool:
    """Whether the file at an address is available, decided within `patience` seconds."""
    if not address.startswith("https://"):
        return False
    reachable = threading.Event()

    def ask() -> None:
        request = urllib.request.Request(address, method="HEAD")  # noqa: S310 (https, checked above)
        try:
            with urllib.request.urlopen(request, timeout=patience):  # noqa: S310
                reachable.set()
        except urllib.error.HTTPError as refusal:
            # 404 comes from the host itself: it may have the weights under their other name
            if refusal.code == HTTPStatus.NOT_FOUND:
                reachable.set()
        except OSError:
            return

    # looking up a host's name can hang beyond any timeout that can be set
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(patience)
    return reachable.is_set()


def _hub_files(config: Mapping[str, object]) -> list[str]:
    """Files of the hub as OWNER/NAME/FILE, in the order in which open_clip tries them: safetensors first."""
    from open_clip.constants import HF_SAFE_WEIGHTS_NAME, HF_WEIGHTS_NAME

    repo, _, file = str(config.get("hf_hub") or "").rpartition("/")
    safe = str(Path(file).with_suffix(".safetensors")) if file else HF_SAFE_WEIGHTS_NAME
    return [f"{repo}/{safe}", f"{repo}/{file or HF_WEIGHTS_NAME}"] if repo else []


def _hub_address(place: str) -> str:
    """The address of OWNER/NAME/FILE; empty when the user has switched the hub off."""
    import huggingface_hub
    from huggingface_hub.constants import HF_HUB_OFFLINE

    repository, _, file = place.rpartition("/")
    return "" if HF_HUB_OFFLINE else huggingface_hub.hf_hub_url(repository, file)
