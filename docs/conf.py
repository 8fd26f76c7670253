"""Settings of the site, for Sphinx: `make docs`."""

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from ctxr.version import __version__

project, author, release = "ctxr", "ctxr contributors", __version__
copyright = author
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "search.md"]  # Sphinx has a page of that name: searching.md includes ours
myst_heading_anchors = 3
highlight_language = "sh"
maximum_signature_line_length = 100
python_display_short_literal_types = True
html_theme = "furo"
html_title = f"{project} {release}"
html_copy_source = False
html_show_sphinx = False

LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc(?:set)?=\W?(?:https?:)?//|<link\b[^>]*\bhref=\W?(?:https?:)?//"
)
"""What a browser would fetch from another machine to show a page; links that a reader follows are none of it."""


def without_paths(_app: Sphinx, *said: Any) -> tuple[str, str] | None:
    """A signature whose paths are written as they are typed; None where it has none."""
    *_, signature, result = said
    return (re.sub(r"PosixPath\(('[^']*')\)", r"\1", signature), result) if signature else None


PARAMETERS = re.compile(r"<dl>\n(<dd><em class=\"sig-param\">.*?)</dl>", re.DOTALL)
"""The parameters of a long signature, which Sphinx writes as definitions of no terms."""


MENDED = {
    ' role="heading">': ' role="heading" aria-level="2">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="All pages">',
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    '<th class="head"><p></p></th>': "<td></td>",
    '<div id="search-results"></div>': '<h1>Search</h1>\n<div id="search-results"></div>',
}
"""What axe-core finds in the pages of Sphinx and Furo, and what it is to be: headings have a level, landmarks a name, what scrolls is
reached by key, no head of a column is empty, and the page of the search has a heading."""


def accessible(app: Sphinx, failed: Exception | None) -> None:
    """Write what is `MENDED` into the finished pages, and `PARAMETERS` as lines."""
    for page in () if failed else Path(app.outdir).rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for wrong, right in MENDED.items():
            text = text.replace(wrong, right)
        lines = PARAMETERS.sub(
            lambda found: found[1].replace("<dd>", '<div style="margin-left: 2rem">').replace("</dd>", "</div>"), text
        )
        page.write_text(lines, encoding="utf-8")


def stand_alone(app: Sphinx, failed: Exception | None) -> None:
    """Pages are read without a network. Raises ExtensionError for one that loads something from another machine."""
    pages = [] if failed else sorted(Path(app.outdir).rglob("*.html"))
    if loading := [page.name for page in pages if LOADED.search(page.read_text(encoding="utf-8"))]:
        raise ExtensionError(f"{', '.join(loading)} would be incomplete without a network")


def setup(app: Sphinx) -> None:
    """Have signatures shortened, and finished pages mended and checked."""
    app.connect("autodoc-process-signature", without_paths)
    app.connect("build-finished", accessible)
    app.connect("build-finished", stand_alone)
