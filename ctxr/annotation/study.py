"""What the people of a study read: its information and consent, the instructions of each task, and questions at the end, in Markdown.

A researcher writes them into one folder: `consent.md`, `instructions-TASK.md`, `exit.md`, and `consent.ar.md` for another language.
Instructions that are not there are those of the package. Raw HTML is shown as text, and links lead to web pages and mailboxes only.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ctxr.annotation.tasks import NAMES
from ctxr.datasets.readers.text_files import read_utf8
from ctxr.errors import DataError, did_you_mean
from ctxr.store.hashing import sha256_of

STUDY = "study"
"""Folder of the workdir with the texts of the study."""

CONSENT, INSTRUCTIONS, EXIT = "consent", "instructions-{}", "exit"

_KNOWN = (CONSENT, EXIT, *(INSTRUCTIONS.format(task) for task in NAMES if task != "repeat"))
_NAME = re.compile(rf"({'|'.join(_KNOWN)})(\.[a-z]{{2,3}}(-[A-Za-z0-9]+)*)?")
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", re.ASCII)


class ExitQuestion(NamedTuple):
    """A question at the end of a study, and its choices; none where people write."""

    text: str
    choices: tuple[str, ...]


@dataclass(frozen=True)
class StudyPage:
    """A text of a study: its first heading, HTML of all that follows (of exit questions, of what stands before them), and its language."""

    title: str
    html: str
    language: str
    questions: tuple[ExitQuestion, ...] = ()


@dataclass(frozen=True)
class StudyTexts:
    """The texts of a study.

    Attributes:
        pages: by name, as `consent`, or name and language, as `consent.ar`.
        version: 12 hexadecimal digits that change with every change of a consent; empty where no consent is asked.
        contact: e-mail address of who answers questions; empty without a consent.
        exit_version: the same as `version`, of the questions at the end.
    """

    pages: Mapping[str, StudyPage] = field(default_factory=dict)
    version: str = ""
    contact: str = ""
    exit_version: str = ""

    def untranslated(self, language: str, tasks: Sequence[str]) -> list[str]:
        """The texts of a study with these tasks that readers of a language get in English, where they get others in their own."""
        shown = {name: self.page(name, language) for name in (CONSENT, *map(INSTRUCTIONS.format, tasks), EXIT)}
        code = language.partition("-")[0]
        is_own = {name: page.language.partition("-")[0] == code for name, page in shown.items() if page}
        return [name for name, own in is_own.items() if not own] if any(is_own.values()) else []

    def page(self, name: str, language: str = "en") -> StudyPage | None:
        """The text of that name in a language, such as pt-BR, or pt; else the English one, whose file names none; None without one."""
        names = (f"{name}.{language}", f"{name}.{language.partition('-')[0]}", name)
        return next((self.pages[one] for one in names if one in self.pages), None)


class _Markdown(MarkdownIt):
    def validateLink(self, url: str) -> bool:
        return url.lower().startswith(("http://", "https://", "mailto:"))


_MARKDOWN = _Markdown("commonmark", {"html": False}).enable("table").disable("image")


def page_of(text: str, where: Path) -> StudyPage:
    """The page that a text in Markdown makes, with the language in the name of its file. Raises DataError where it has no heading."""
    tokens = _MARKDOWN.parse(text)
    for one in tokens:
        if one.type in ("th_open", "td_open"):
            one.attrs = {}  # a style of their own, which browsers refuse here
    start = next((place for place, token in enumerate(tokens) if token.type == "heading_open"), None)
    title = "".join(one.content for one in tokens[start + 1].children or ()).strip() if start is not None else ""
    if start is None or not title:
        raise DataError(f"{where} has no heading", hint="begin it with its title, such as # Information and consent")
    questions, end = tuple[ExitQuestion, ...](), len(tokens)
    if where.stem.split(".")[0] == EXIT:
        end = next((at for at, one in enumerate(tokens) if one.type == "heading_open" and one.tag == "h2"), end)
        questions = exit_questions(tokens[end:], where)
        if not questions or end == start:
            raise DataError(
                f"{where} has no question below its title", hint="write each as a heading: ## How old are you?"
            )
    html = _MARKDOWN.renderer.render(tokens[:start] + tokens[start + 3 : end], _MARKDOWN.options, {})
    return StudyPage(title, html, where.stem.partition(".")[2] or "en", questions)


def exit_questions(tokens: Sequence[Token], where: Path) -> tuple[ExitQuestion, ...]:
    """The second-level headings, each with the items of the list below it. Raises DataError for anything else."""
    questions: list[ExitQuestion] = []
    for before, one in pairwise(tokens):
        breaks = ("softbreak", "hardbreak")
        text = "".join(" " if part.type in breaks else part.content for part in one.children or ()).strip()
        if text and (before.type, before.tag) == ("heading_open", "h2"):
            questions.append(ExitQuestion(text, ()))
        elif text and before.type == "paragraph_open" and before.level > 1 and questions:
            questions[-1] = ExitQuestion(questions[-1].text, (*questions[-1].choices, text))
        elif text:
            raise DataError(
                f"{where}: {text!r} is neither a question nor a choice", hint="write it above the first question"
            )
    return tuple(questions)


def read_texts(folder: Path | None) -> StudyTexts:
    """The texts in a folder, which may be missing, and our instructions of other tasks.

    Raises DataError for a text of an unknown name, in one language only that is named, without a heading or not in UTF-8, and for a
    consent that names no contact.
    """
    own = {}
    for file in sorted(folder.glob("*.md")) if folder is not None else ():
        if not _NAME.fullmatch(file.stem):
            hint = did_you_mean(file.stem, _KNOWN, f"names are {', '.join(_KNOWN)}", "{}.md")
            raise DataError(f"{file} is no text of a study", hint=hint)
        own[file.stem] = read_utf8(file, "write it again as a text file in UTF-8")
    for name, text in own.items():
        if (plain := name.split(".")[0]) not in own:
            raise DataError(f"{folder} has {name}.md and no {plain}.md", hint="it is read in all other languages")
        if plain == CONSENT and not _ADDRESS.search(text):
            hint = "add the e-mail address of who answers questions, such as <study@example.org>"
            raise DataError(f"{folder}/{name}.md names no contact", hint=hint)
    ours = {
        INSTRUCTIONS.format(file.name.removesuffix(".md")): file.read_text("utf-8")
        for file in (files("ctxr.annotation.web") / "instructions").iterdir()
    }
    texts = {name: text for name, text in ours.items() if name.split(".")[0] not in own} | own
    pages = {name: page_of(text, (folder or Path()) / f"{name}.md") for name, text in texts.items()}
    for name, page in pages.items():
        shapes = [[len(one.choices) for one in each.questions] for each in (page, pages[name.split(".")[0]])]
        if shapes[0] != shapes[1]:
            raise DataError(
                f"{folder}/{name}.md has other questions or choices than exit.md", hint="translate each of them"
            )
    consents, exits = (
        {name: text for name, text in own.items() if name.split(".")[0] == kind} for kind in (CONSENT, EXIT)
    )
    exit_version = sha256_of(exits)[:12] if exits else ""
    if not consents:
        return StudyTexts(pages, exit_version=exit_version)
    return StudyTexts(pages, sha256_of(consents)[:12], _ADDRESS.findall(own[CONSENT])[0], exit_version)
