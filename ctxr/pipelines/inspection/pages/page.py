"""The page itself: its parts in order, one file that fetches nothing, and the policy that holds it to that."""

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ctxr import __version__
from ctxr.pipelines.inspection.pages import distributions as timelines
from ctxr.pipelines.inspection.pages import results, revision, sets, summary
from ctxr.pipelines.inspection.pages.chain import ALONE
from ctxr.pipelines.inspection.pages.edition import SIDE, Edition, Section
from ctxr.pipelines.inspection.pages.plots import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH
from ctxr.store.kinds import REVISE_LABELS

SECTIONS: tuple[Section, ...] = (
    summary.SUMMARY_SECTION,
    sets.SETS_SECTION,
    results.RESULTS_SECTION,
    revision.REVISION_SECTION,
    results.TABLES_SECTION,
    timelines.TIMELINES_SECTION,
    sets.DROPPED_SECTION,
    timelines.DISTRIBUTIONS_SECTION,
    sets.FAILURES_SECTION,
    summary.PROVENANCE_SECTION,
)
"""Parts of the page in the order in which they are read. A new one needs its `Section`, `templates/<id>.html`, and, if it
moves, `static/<id>.js`."""

OF_CAPTIONS: tuple[Section, ...] = (
    revision.REVISION_SECTION,
    results.TABLES_SECTION,
    results.RESULTS_SECTION,
    summary.PROVENANCE_SECTION,
)
"""Those that say something of captions without image sets of ours."""

FIRST_LINE = b"<!doctype html><!-- ctxr report -->"
"""How a page starts, by which it is known as ours before it is written over."""


def write_page(
    edition: Edition, folder: str, sections: Sequence[Section] | None = None, more: Sequence[tuple[str, str]] = ()
) -> bytes:
    """The whole page in UTF-8. `folder` is the folder of its pictures, relative to it; "" has them inside. `more` are other pages,
    by name and address.

    Equal artifacts give equal bytes. Everything from tables and manifests is escaped; scripts write text, never markup.
    """
    environment = Environment(
        loader=PackageLoader("ctxr.pipelines.inspection.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["plot_box"] = {
        "left": LEFT, "right": WIDTH - RIGHT, "top": TOP, "bottom": HEIGHT - BOTTOM, "width": WIDTH, "height": HEIGHT
    }  # fmt: skip
    revised = edition.chain.last.command == f"ctxr {REVISE_LABELS}"
    sections = sections or (OF_CAPTIONS if revised else SECTIONS)
    # the overview counts what the others could not show, so it is made last
    contexts = {section.id: section.make(edition) for section in sorted(sections, key=lambda one: one.id == "summary")}
    if edition.chain.last.kind == ALONE and contexts.get("results") is None and contexts.get("tables") is not None:
        contexts["summary"] = None  # it counts sets and queries, and there are none
    shown = [(section, contexts[section.id]) for section in sections if contexts[section.id] is not None]
    parts = [
        (section, Markup(environment.get_template(f"{section.id}.html").render(context, section=section)))  # noqa: S704
        for section, context in shown
    ]
    edition.data["pictures"] = edition.pictures.addresses(folder)
    edition.data["near"] = edition.near
    style = _static("report.css")
    scripts = ["base", *(section.id for section, _ in shown)]
    script = "".join(
        f"(() => {{\n{code}}})();\n" for name in scripts if (code := _static(f"{name}.js", must=name == "base"))
    )
    page = environment.get_template("page.html").render(
        first_line=FIRST_LINE.decode(),
        chain=edition.chain,
        version=__version__,
        parts=parts,
        more=more,
        style=style,
        script=script,
        policy=_policy(style, script, folder),
        data=_json(edition.data),
        side=SIDE,
    )
    return page.encode()


def _static(name: str, must: bool = True) -> str:
    file = files("ctxr.pipelines.inspection.pages") / "static" / name
    return file.read_text(encoding="utf-8") if must or file.is_file() else ""


def _policy(style: str, script: str, folder: str) -> str:
    """Content Security Policy: nothing may be fetched; pictures come from the page, or from the folder beside it."""
    pictures = "data: 'self' file:" if folder else "data:"
    return (
        f"default-src 'none'; img-src {pictures}; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json(data: dict[str, Any]) -> str:
    """JSON that cannot end the element it stands in, whatever a name holds."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
