"""Small pictures for a page: each made once, inside the page while they are few, as files beside it beyond that."""

import base64
from dataclasses import dataclass, field
from pathlib import Path

from ctxr.data.atomic import write_bytes
from ctxr.data.hashing import sha256_bytes
from ctxr.data.images import thumbnail
from ctxr.errors import DataError
from ctxr.pipelines.reporting.chain import inside

SIDE = 240
"""Longer side in pixels: twice the width of a picture in a strip of ten on a common screen."""

NONE = -1
"""Number of a picture that there is none of, by right: the frame was never saved, or the release is here without it."""

MISSING = -2
"""Number of a picture that should be there and is missing or broken."""


@dataclass
class Thumbnails:
    """Thumbnails of an artifact's pictures, numbered in the order in which they were first asked for.

    Attributes:
        root: the artifact. folder: where they are written as files, at once; None keeps them, to be put inside the page.
        missing: what could not be shown, one sentence each.
    """

    root: Path
    folder: Path | None = None
    missing: list[str] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)
    _made: list[str] = field(default_factory=list)

    def number(self, path: str) -> int:
        """The number of the picture at `path`; MISSING where it cannot be shown, NONE where there is no path."""
        if not path:
            return NONE
        if path not in self._numbers:
            self._numbers[path] = self._keep(self._make(path))
        return self._numbers[path]

    def _make(self, path: str) -> bytes | str:
        """A small JPEG, or in words why there is none."""
        file = inside(self.root, path)
        if file is None:
            return f"{path} is missing"
        try:
            return thumbnail(file, SIDE)
        except DataError as error:
            return error.message.replace(str(file), path)

    def _keep(self, content: bytes | str) -> int:
        if isinstance(content, str):
            self.missing.append(content)
            return MISSING
        if self.folder is None:
            self._made.append(f"data:image/jpeg;base64,{base64.b64encode(content).decode()}")
        else:
            # named by content, so that a page never shows the picture of another one
            name = f"{len(self._made)}-{sha256_bytes(content)[:12]}.jpg"
            write_bytes(self.folder / name, content, durable=False)
            self._made.append(name)
        return len(self._made) - 1

    def __len__(self) -> int:
        return len(self._made)

    def addresses(self, beside: str) -> list[str]:
        """Where a page finds each picture, by number: inside itself, or in the folder `beside`."""
        return [f"{beside}/{name}" for name in self._made] if beside else list(self._made)
