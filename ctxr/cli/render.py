"""Everything that reaches the terminal: results on stdout; notes, progress and errors on stderr."""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from ctxr.engine.progress import Progress, ProgressTask, Silent
from ctxr.engine.report import Table as Tabular

LOG_SECONDS = 10
"""Longest time between two lines of progress in a log."""

LONGEST_CELL = 30
"""Characters of a column that is put beside others; longer text is wrapped."""

LONGEST_NAME = 20
"""Characters of a row's name that are never broken."""


class Summary(NamedTuple):
    """Names and values in two columns, below a title; a value of None is not shown."""

    title: str
    rows: Mapping[str, object]


class Sentences(NamedTuple):
    """Sentences below a heading; nothing if there are none."""

    heading: str
    lines: Iterable[str]


Block = Summary | Sentences | Tabular | RenderableType


def console(stderr: bool = False) -> Console:
    """The console for results, or for notes, progress and errors."""
    return Console(stderr=stderr, highlight=False, soft_wrap=True, emoji=False)


def show_error(message: str, hint: str, exit_code: int, as_json: bool = False) -> None:
    """One sentence in red, and what to do about it; for programs also as JSON on stdout."""
    if as_json:
        show_json({"error": message, "hint": hint, "exit_code": exit_code})
    terminal = console(stderr=True)
    terminal.print(f"[bold red]error:[/] {plain_text(message)}")
    if hint:
        terminal.print(f"[cyan]hint:[/]  {plain_text(hint)}")


class TextDocument(Text):
    """A text to be kept, such as `> FILE` does: nothing stands after it."""


def show(document: object, blocks: Iterable[Block], as_json: bool, step: str | None = None) -> None:
    """A result on stdout: its document for programs, or its blocks for people; and the command that comes next, if it is known."""
    if as_json:
        show_json(document, {} if step is None else {"next": step})
        return
    for block in blocks:
        match block:
            case Summary():
                facts = Table.grid(padding=(0, 2))
                facts.add_column(style="dim", justify="right")
                facts.add_column()
                for name, value in block.rows.items():
                    if value is not None:
                        facts.add_row(escape(name), plain_text(str(value)))
                console().print(f"[bold]{plain_text(block.title)}[/]")
                console().print(facts)
            case Sentences():
                for number, line in enumerate(block.lines):
                    if not number:
                        console().print(f"\n[bold]{block.heading}[/]")
                    console().print(f"· {plain_text(line)}")
            case Tabular():
                show_table(block)
            case _:
                console().print(block)
                step = None if isinstance(block, TextDocument) else step
    if step:  # whole, however narrow the terminal: it is copied
        console().print(f"[bold]next:[/] {plain_text(step)}")


def show_json(value: object, more: Mapping[str, object] = {}) -> None:
    """A result as one JSON document on stdout, with `more` keys; signs that stdout cannot carry are escaped, so none is lost."""
    import msgspec  # here, because `ctxr --help` loads this module and writes no JSON

    document = msgspec.to_builtins(value, enc_hook=_json_value, str_keys=True)
    document = {**document, **more} if more else document
    text = json.dumps(document, ensure_ascii=False, indent=1)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(document, indent=1)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _json_value(value: object) -> object:
    """What JSON has for a value of another type: text for paths and exact times."""
    if isinstance(value, float | Mapping):  # of NumPy, or one that cannot be changed
        return float(value) if isinstance(value, float) else dict(value)
    return value.as_posix() if isinstance(value, Path) else str(value)


def show_table(table: Tabular) -> None:
    """A table of figures, with what one must know to read it below."""
    terminal = console()
    terminal.print()
    for number, columns in enumerate(pieces(table, terminal.width)):
        title = escape(table.title) if table.title and not number else None
        piece = Table(title=title, title_justify="left", title_style="bold")
        for column in columns:
            numbers = any(isinstance(row[column], int | float) for row in table.rows)
            # what names a row is read whole, and copied
            longest = max((len(str(row[column])) for row in table.rows), default=0)
            piece.add_column(
                escape(table.columns[column]),
                justify="right" if numbers else "left",
                min_width=None if column else min(LONGEST_NAME, longest),
                overflow="fold",
            )
        for row in table.rows:
            cells = (table.cell(row[column], table.columns[column]) for column in columns)
            piece.add_row(*map(plain_text, cells))
        terminal.print(piece)
    for line in (*((table.note,) if table.note else ()), *(f"· {line}" for line in table.examples)):
        terminal.print(f"[dim]{plain_text(line)}[/]")


def pieces(table: Tabular, width: int) -> list[list[int]]:
    """Columns that fit side by side in a terminal of that width, text of more than `LONGEST_CELL` characters wrapped; the others
    follow below. The columns that tell the rows apart come first in every piece."""
    cells = [[table.cell(row[column]) for row in table.rows] for column in range(len(table.columns))]
    widths = [
        min(LONGEST_CELL, max(map(len, [head, *texts]))) + 3 for head, texts in zip(table.columns, cells, strict=True)
    ]
    if sum(widths) < width:
        return [list(range(len(widths)))]
    counts = (len(set(zip(*cells[:count], strict=True))) for count in range(1, len(cells)))
    keys = next((count for count, different in enumerate(counts, 1) if different == len(table.rows)), 1)
    parts = [list(range(keys))]
    for column in range(keys, len(widths)):
        if sum(widths[column] for column in parts[-1]) + widths[column] >= width and len(parts[-1]) > keys:
            parts.append(list(range(keys)))
        parts[-1].append(column)
    return parts


def plain_text(text: str) -> str:
    """Text from files as it can be shown: neither markup nor a sign that acts on a terminal."""
    return escape("".join(sign if sign.isprintable() or sign == "\n" else "\ufffd" for sign in text))


class Terminal(Progress):
    """A `Progress` on stderr, with live bars where it is a terminal, and lines where nothing can be drawn over."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, quiet: bool = False, verbose: bool = False
    ) -> None:
        self._quiet, self._verbose = quiet, verbose
        self._console, self._clock, self._tasks = console(stderr=True), clock, list[_LogLines]()
        self._draws = self._console.file.isatty() and not self._console.is_dumb_terminal
        self._printed = clock()

    def __reduce__(self) -> tuple[type[Silent], tuple[()]]:
        """Silent in another process."""
        return Silent, ()

    def note(self, text: str) -> None:
        """Something worth knowing."""
        if not self._quiet:
            self._print(f"[dim]{plain_text(text)}[/]")

    def detail(self, text: str) -> None:
        """Something that was decided."""
        if self._verbose:
            self._print(f"[dim]{plain_text(text)}[/]")

    def warn(self, text: str) -> None:
        """Something that may surprise."""
        self._print(f"[yellow]warning:[/] {plain_text(text)}")

    def _print(self, line: str) -> None:
        self._printed = self._clock()
        self._console.print(line)

    @contextmanager
    def alive(self, command: str) -> Iterator[None]:
        """While the block works, at least a line every `LOG_SECONDS` where no bar is drawn."""
        ended = Event()
        thread = Thread(target=self.beat, args=(command, ended.wait), daemon=True)
        if not self._draws and not self._quiet:
            thread.start()
        try:
            yield
        finally:
            ended.set()
            if thread.is_alive():
                thread.join()

    def beat(self, command: str, ended: Callable[[float], bool]) -> None:
        """Until the command has `ended`, which waits so many seconds for it: a line after `LOG_SECONDS` without another one."""
        began = self._clock()
        while not ended(max(0.0, self._printed + LOG_SECONDS - self._clock())):
            if self._clock() >= self._printed + LOG_SECONDS:
                work = [command, *(task.state() for task in self._tasks)][-1]
                self.note(f"{work}, {self._clock() - began:.0f} s")

    def alert(self, text: str) -> None:
        """What makes figures wrong."""
        self._print(f"[bold red]{plain_text(text)}[/]")

    @contextmanager
    def task(self, label: str, total: float | None) -> Iterator["_Line | _LogLines"]:
        """A bar with counts, rate and time left; a line at the start where no bar is drawn, and those of `beat`."""
        if not self._draws or self._quiet:
            self.note(label)
            self._tasks.append(_LogLines(label, total))
            try:
                yield self._tasks[-1]
            finally:
                self._tasks.pop()
            return
        bar = (BarColumn(), MofNCompleteColumn()) if total is not None else (SpinnerColumn(),)
        columns = (
            TextColumn("{task.description}"),
            *bar,
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("[dim]{task.fields[now]}"),
        )
        with Bars(*columns, console=self._console, transient=True) as shown:
            task = shown.add_task(escape(label), total=total, now="", rate="")
            try:
                yield _Line(shown, task)
            finally:  # the last frame is empty: not every terminal can take back a line
                shown.update(task, visible=False)


@dataclass
class _LogLines(ProgressTask):
    """Progress where nothing can be drawn over."""

    label: str
    total: float | None
    done: float = 0.0

    def state(self) -> str:
        counts = [f"{steps:,.{int(steps % 1 > 0)}f}" for steps in (self.done, self.total) if steps is not None]
        return f"{self.label}: {' of '.join(counts)}" if self.done or self.total else self.label

    def advance(self, steps: float = 1) -> None:
        self.done += steps


@dataclass
class _Line(ProgressTask):
    shown: Bars
    task: TaskID

    def advance(self, steps: float = 1) -> None:
        self.shown.advance(self.task, steps)
        if speed := self.shown.tasks[self.shown.task_ids.index(self.task)].speed:
            self.shown.update(self.task, rate=f"{speed:.1f}/s")

    def say(self, text: str) -> None:
        self.shown.update(self.task, now=plain_text(text))
