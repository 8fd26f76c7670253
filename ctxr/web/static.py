"""What pages are made of: templates, styles, scripts; and the error shown instead of one."""

import hashlib
from collections.abc import Sequence
from importlib.resources import files
from itertools import chain

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response

from ctxr.web import language

SHARED = "ctxr.web"
"""The package whose templates and styles all pages share."""

PICTURES = {".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".png": "image/png", ".webp": "image/webp"}
"""Types of pictures that every browser shows, by the suffix of their file."""

_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


class HttpProblem(Exception):
    """What a visitor sees instead of a page; `kept` are texts of theirs that must not be lost.

    `said`: the sentences that a script gets; default: title and lines.
    """

    def __init__(self, status: int, title: str, *lines: str, kept: Sequence[str] = (), said: str = "") -> None:
        super().__init__(title)
        self.status, self.title, self.lines, self.kept = status, title, lines, tuple(kept)
        self.said = said or " ".join((f"{title}.", *lines))


def environment(package: str) -> Environment:
    """The templates in the folder `templates` of a package and in ours: values are escaped, and an unknown name is an error."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(SHARED)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals |= {one.__name__: one for one in (language._, language.ngettext, language.number)}
    made.globals |= {"language": language.SPOKEN.get, "others_to_speak": language.OTHERS.get}
    return made


class StaticFiles:
    """The styles and scripts in the folder `static` of a package and in ours, found by name and never by a path.

    Attributes:
        version: hash of all of them, for addresses that browsers keep forever.
    """

    def __init__(self, package: str) -> None:
        both = chain.from_iterable((files(one) / "static").iterdir() for one in (SHARED, package))
        found = (file for file in both if file.name.split(".")[-1] in _TYPES)
        self._files = {file.name: file.read_bytes() for file in found}
        content = b"".join(content for _, content in sorted(self._files.items()))
        self.version = hashlib.sha256(content).hexdigest()[:12]

    def serve(self, request: Request) -> Response:
        """The file that the address names. Raises HttpProblem where there is none."""
        name = request.path_params["name"]
        if name not in self._files:
            raise HttpProblem(404, language._("This page does not exist"))
        headers = {"cache-control": "public, max-age=31536000, immutable"}
        return Response(self._files[name], media_type=_TYPES[name.split(".")[-1]], headers=headers)
