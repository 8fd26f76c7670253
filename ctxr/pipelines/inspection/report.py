"""`ctxr report`: a chain of artifacts, or a published release, as one offline HTML page."""

import os
import re
import shutil
from pathlib import Path
from urllib.parse import quote

from ctxr.engine.progress import Progress, Silent
from ctxr.errors import UsageError
from ctxr.pipelines.inspection.config import Report, ReportPage
from ctxr.pipelines.inspection.pages.chain import load_chain
from ctxr.pipelines.inspection.pages.edition import Edition, Thumbnails
from ctxr.pipelines.inspection.pages.page import FIRST_LINE, write_page
from ctxr.store.artifacts import MARKER
from ctxr.store.atomic import disk_errors, replace_folder, write_bytes


def run(config: Report, progress: Progress | None = None) -> ReportPage:
    """Write the page and report its contents.

    Raises UnfinishedError without anything finished, DataError for a damaged table, UsageError where something else
    stands at the page's place.
    """
    progress = progress or Silent()
    page = config.check().page()
    _refuse_strangers(page)

    chain = load_chain(config.workdir, config.input, progress)
    for stage in chain.stages:
        if stage.manifest and page.resolve().is_relative_to(stage.path.resolve()):
            raise UsageError(f"{page} lies inside the artifact {stage.path}", hint="choose another --out")
    for note in chain.notes:
        progress.warn(note)

    paths = {image.path for unit in chain.units for image in unit.images}
    paths |= {facts.path for unit in chain.units for facts in unit.facts}
    paths.discard("")
    folder = page.with_name(page.stem)
    separate = len(paths) > config.inside
    pictures = Thumbnails(chain.root, _new_folder(folder) if separate else None)
    with progress.task("pictures", len(paths)) as task:
        for path in sorted(paths):
            pictures.number(path)
            task.advance()
    others = [(one.resolve().parent.name, link) for one in map(Path, config.more) if (link := _link(page, one))]
    edition = Edition(chain, pictures, _link(page, chain.root), progress)
    content = write_page(edition, folder.name if separate else "", more=others)
    _put_folder(folder, separate)
    write_bytes(page, content)
    if pictures.missing:
        more = f", and {len(pictures.missing) - 1} more" if len(pictures.missing) > 1 else ""
        progress.warn(f"{pictures.missing[0]}{more}: run ctxr doctor {chain.root} for a fix")
    return ReportPage(
        page=page,
        bytes=len(content),
        chain=[stage.path for stage in chain.stages],
        sets=sum(len(unit.sets) for unit in chain.units),
        pictures=len(pictures),
        folder=folder if separate else None,
        missing=pictures.missing,
        notes=list(chain.notes),
    )


def _refuse_strangers(page: Path) -> None:
    """Raises UsageError when `page` is a folder, or a file that is no page of ours."""
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
    return all(re.fullmatch(r"\d+-[0-9a-f]{12}\.jpg|\.ctxr", file.name) for file in folder.iterdir())


def _unfinished(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.making")


def _new_folder(folder: Path) -> Path:
    """An empty folder that takes the place of `folder` when it is full."""
    if folder.exists() and not _is_ours(folder):
        raise UsageError(f"{folder} is not an image folder written by ctxr", hint="choose another --out")
    with disk_errors(_unfinished(folder)):
        shutil.rmtree(_unfinished(folder), ignore_errors=True)
        _unfinished(folder).mkdir(parents=True)
    write_bytes(_unfinished(folder) / MARKER, b"", durable=False)
    return _unfinished(folder)


def _put_folder(folder: Path, wanted: bool) -> None:
    """Put the new pictures in place, or remove those of an earlier page; what is not ours is left alone."""
    if wanted:
        replace_folder(_unfinished(folder), folder)
    elif _is_ours(folder):
        with disk_errors(folder):
            shutil.rmtree(folder)
