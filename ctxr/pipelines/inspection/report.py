"""`ctxr report`: a chain of artifacts, or a published release, as one offline HTML page."""

import base64
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import msgspec
from markupsafe import Markup

from ctxr.engine.progress import SILENT, Progress
from ctxr.errors import DryRun, UsageError, and_more
from ctxr.pipelines.inspection.config import Report, ReportPage
from ctxr.pipelines.inspection.pages import distributions, results, revision, sets, summary
from ctxr.pipelines.inspection.pages.chain import ALONE, load_chain
from ctxr.pipelines.inspection.pages.edition import LARGE, SIDE, PageBuilder, Thumbnails
from ctxr.problems.question import View
from ctxr.store.artifacts import MARKER
from ctxr.store.atomic import DRY_RUN, disk_errors, replace_folder, write_bytes
from ctxr.store.kinds import REVISE_LABELS
from ctxr.version import __version__
from ctxr.web.static import SHARED, environment

PAGES = "ctxr.pipelines.inspection.pages"
VIEWS = "views"


class Section(NamedTuple):
    """A part of the page: its id names anchor, template and script; `make` returns what fills it, or None."""

    id: str
    title: str
    make: Callable[[PageBuilder], Mapping[str, object] | None]


SECTIONS: tuple[Section, ...] = (
    Section("summary", "Overview", summary.make_summary),
    Section("sets", "Sets", sets.make_sets),
    Section("people", "People", sets.make_people),
    Section("results", "Results", results.make_results),
    Section(VIEWS, "", results.make_views),
    Section("revision", "Revised labels", revision.make_revision),
    Section("steps", "Steps", summary.make_steps),
    Section("timelines", "Timelines", distributions.make_timelines),
    Section("dropped", "Left out", sets.make_dropped),
    Section("distributions", "Distributions", distributions.make_distributions),
    Section("failures", "Failures", sets.make_failures),
    Section("provenance", "Provenance", summary.make_provenance),
)
"""Parts of the page in the order in which they are read; at `VIEWS` stand those of problems. A new one needs a row here,
`templates/<id>.html`, and, if it moves, `static/<id>.js`."""

OF_CAPTIONS = ("revision", VIEWS, "results", "provenance")
"""Those that say something of captions without image sets of ours, in their order."""

FIRST_LINE = b"<!doctype html><!-- ctxr report -->"
"""How a page starts, by which it is known as ours before it is written over."""


def run(config: Report, progress: Progress = SILENT) -> ReportPage:
    """Write the page. Raises UsageError where something else stands in its place."""
    config.check()
    page = config.out or config.workdir / "report.html"
    _refuse_strangers(page)

    chain = load_chain(config.workdir, config.input, progress)
    for stage in chain.stages:
        if stage.manifest and page.resolve().is_relative_to(stage.path.resolve()):
            raise UsageError(f"{page} lies inside the artifact {stage.path}", hint="choose another --out")
    for note in chain.notes:
        progress.warn(note)
    if chain.leak:
        progress.alert(chain.leak)

    paths = {image.path for unit in chain.units for image in unit.images}
    paths |= {facts.path for unit in chain.units for facts in unit.facts}
    paths.discard("")
    if DRY_RUN.get():
        raise DryRun(f"would write {page}", {"sources": len(chain.units), "pictures": len(paths)})
    folder = page.with_name(page.stem)
    separate = len(paths) > config.inside
    others = [(one.resolve().parent.name, link) for one in map(Path, config.more) if (link := _link(page, one))]
    with _new_folder(folder) if separate else nullcontext() as new:
        pictures = Thumbnails(chain.root, chain.project, new, SIDE if separate else LARGE)
        pictures.make(sorted(paths), progress)
        edition = PageBuilder(chain, pictures, _link(page, chain.root), progress)
        content = write_page(edition, folder.name if separate else "", others)
    if not separate and _is_ours(folder):  # the pictures of an earlier page; what is not ours is left alone
        with disk_errors(folder):
            shutil.rmtree(folder)
    write_bytes(page, content)
    if pictures.missing:
        lacking = f"{pictures.missing[0]}{and_more(len(pictures.missing))}"
        progress.warn(f"{lacking}: run ctxr doctor {chain.root} for a fix")
    return ReportPage(
        page=page,
        bytes=len(content),
        chain=[stage.path for stage in chain.stages],
        sets=sum(len(unit.sets) for unit in chain.units),
        pictures=len(pictures.addresses("")),
        folder=folder if separate else None,
        missing=pictures.missing,
        notes=list(chain.notes),
    )


def _refuse_strangers(page: Path) -> None:
    """Raises UsageError when `page` is a folder, or a file that is not a page of ours."""
    with disk_errors(page):
        if page.is_dir():
            raise UsageError(f"{page} is a folder, not a page", hint="name a file, such as --out report.html")
        if page.suffix.lower() not in (".html", ".htm"):
            raise UsageError(f"{page} does not end in .html", hint=f"--out {page}.html")
        if page.exists():
            with page.open("rb") as stream:
                if stream.read(len(FIRST_LINE)) != FIRST_LINE:
                    raise UsageError(f"{page} is not a page written by ctxr", hint="choose another --out, or remove it")


def _link(page: Path, root: Path) -> str:
    """The relative link from the page to an artifact or another page; "" if there is none."""
    try:
        return quote(Path(os.path.relpath(root.resolve(), page.resolve().parent)).as_posix())
    except ValueError:  # another drive
        return ""


def _is_ours(folder: Path) -> bool:
    """Whether `folder` holds the pictures of a page that ctxr wrote, and nothing else."""
    if folder.is_symlink() or not (folder / MARKER).is_file():
        return False
    return all(re.fullmatch(r"(\d+-[0-9a-f]{12}|[0-9a-f]{32})\.jpg|\.ctxr", file.name) for file in folder.iterdir())


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """An empty folder that takes the place of `folder` after the block; nothing is left of it where the block fails."""
    if folder.exists() and not _is_ours(folder):
        raise UsageError(f"{folder} is not an image folder written by ctxr", hint="choose another --out")
    new = folder.with_name(f".{folder.name}.making")
    shutil.rmtree(new, ignore_errors=True)
    try:
        write_bytes(new / MARKER, b"", durable=False)
        yield new
        replace_folder(new, folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def write_page(edition: PageBuilder, folder: str, more: Sequence[tuple[str, str]]) -> bytes:
    """The whole page in UTF-8, with its pictures in `folder`, relative to it, or "" inside it, and links to `more` pages, by name and
    address. Equal artifacts give equal bytes. All from tables and manifests is escaped; scripts write text, never markup."""
    revised = edition.chain.last.command == f"ctxr {REVISE_LABELS}" and edition.chain.built is None
    by_id = {section.id: section for section in SECTIONS}
    sections = [by_id[name] for name in (OF_CAPTIONS if revised else by_id)]
    # a run that is opened for the results shows its own progress; the overview counts what the others could not show
    contexts = {section.id: section.make(edition) for section in sections if section.id == "results"}
    with edition.progress.task("writing the page", None):
        later = sorted(sections, key=lambda one: one.id == "summary")
        contexts |= {section.id: section.make(edition) for section in later if section.id != "results"}
    if edition.chain.last.kind == ALONE and contexts.get("results") is None and edition.views:
        contexts["summary"] = None  # it counts sets and queries, and there are none
    views: list[View] = []
    for section in sections:
        if section.id == VIEWS:
            views += edition.views
        elif (context := contexts[section.id]) is not None:
            title = f"{edition.subject.unit}s".capitalize() if section.id == "sets" else section.title
            views.append(View(section.id, title, PAGES, context))
    edition.data |= {view.id: view.data for view in edition.views if view.data is not None}
    parts = []
    for view in views:
        template = environment(view.package).get_template(f"{view.id}.html")
        parts.append((view, Markup(template.render(view.context, section=view))))  # noqa: S704
    edition.data["pictures"] = edition.pictures.addresses(folder)
    edition.data["near"], edition.data["beside"] = edition.near, bool(folder)
    styles = [(SHARED, "colours"), (PAGES, "report"), *((view.package, view.id) for view in edition.views)]
    style = "".join(_static(package, f"{name}.css") for package, name in styles)
    scripts = [_static(PAGES, "base.js"), *(_static(view.package, f"{view.id}.js") for view in views)]
    script = "".join(f"(() => {{\n{code}}})();\n" for code in scripts if code)
    # nothing may be fetched; pictures come from the page, or from the folder beside it
    images = "data: 'self' file:" if folder else "data:"
    digests = (hashlib.sha256(code.encode()).digest() for code in (style, script))
    allowed = [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests]
    sources = f"img-src {images}; style-src {allowed[0]}; script-src {allowed[1]}"
    # JSON that cannot end the element it stands in, whatever a name holds
    text = json.dumps(msgspec.to_builtins(edition.data), ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return (
        environment(PAGES)
        .get_template("page.html")
        .render(
            first_line=FIRST_LINE.decode(),
            chain=edition.chain,
            unit=edition.subject.unit,
            version=__version__,
            parts=parts,
            more=more,
            style=style,
            script=script,
            policy=f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'",
            data=text,
            side=SIDE,
        )
        .encode()
    )


def _static(package: str, name: str) -> str:
    """A script or style of a package; "" where it has none."""
    file = files(package) / "static" / name
    return file.read_text(encoding="utf-8") if file.is_file() else ""
