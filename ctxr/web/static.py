"""Styles and scripts, and the error of an address that leads nowhere."""

import hashlib
from collections.abc import Sequence
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


class HttpProblem(Exception):
    """Something that a visitor is told instead of a page; `kept` are texts of theirs that must not be lost."""

    def __init__(self, status: int, title: str, *lines: str, kept: Sequence[str] = ()) -> None:
        super().__init__(title)
        self.status, self.title, self.lines, self.kept = status, title, lines, tuple(kept)


class StaticFiles:
    """The styles and scripts in the folder `static` of a package, found by name and never by a path.

    Attributes:
        version: hash of all of them, for addresses that browsers keep forever.
    """

    def __init__(self, package: str) -> None:
        found = (file for file in (files(package) / "static").iterdir() if file.name.split(".")[-1] in _TYPES)
        self._files = {file.name: file.read_bytes() for file in found}
        content = b"".join(content for _, content in sorted(self._files.items()))
        self.version = hashlib.sha256(content).hexdigest()[:12]

    def serve(self, request: Request) -> Response:
        """The file that the address names. Raises HttpProblem where there is none."""
        name = request.path_params["name"]
        if name not in self._files:
            raise HttpProblem(404, "This page does not exist")
        headers = {"cache-control": "public, max-age=31536000, immutable"}
        return Response(self._files[name], media_type=_TYPES[name.split(".")[-1]], headers=headers)
