"""Everything that reaches the terminal: results on stdout; talk, progress and errors on stderr."""

import dataclasses
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from ctxr.pipelines.result_tables import Table as Tabular

LOG_SECONDS = 30.0
"""Time between two lines of progress in a log."""

LONGEST_NAME = 20
"""Characters of a row's name that are never broken."""

P_SHOWN = 0.001
"""A smaller p-value is shown as below this."""


def stderr() -> Console:
    """The console for talk."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def stdout() -> Console:
    """The console for results."""
    return Console(highlight=False, soft_wrap=True)


def show_error(message: str, hint: str, exit_code: int, as_json: bool = False) -> None:
    """One sentence in red, and what to do about it; for programs also as a JSON document on stdout."""
    if as_json:
        show_json({"error": message, "hint": hint, "exit_code": exit_code})
    console = stderr()
    console.print(f"[bold red]error:[/] {_plain_text(message)}")
    if hint:
        console.print(f"[cyan]hint:[/]  {_plain_text(hint)}")


def show_json(value: Any) -> None:
    """A result as one JSON document on stdout; signs that stdout cannot carry are escaped, so none is lost."""
    document = plain(value)
    text = json.dumps(document, ensure_ascii=False, indent=1)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(document, indent=1)
    sys.stdout.write(text + "\n")


def plain(value: Any) -> Any:
    """A result as JSON types: dataclasses and records become objects, paths and exact times text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if names := getattr(value, "__struct_fields__", None):  # a record
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value.as_posix() if isinstance(value, Path) else str(value)


def show_facts(title: str, rows: Mapping[str, Any]) -> None:
    """Names and values in two columns."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", justify="right")
    table.add_column()
    for name, value in rows.items():
        table.add_row(escape(name), _plain_text(str(value)))
    console = stdout()
    console.print(f"[bold]{_plain_text(title)}[/]")
    console.print(table)


def show_table(table: "Tabular") -> None:
    """A table of figures, with what one must know to read it below."""
    shown = Table(title=escape(table.title), title_justify="left", title_style="bold", caption_justify="left")
    for place, name in enumerate(table.columns):
        numbers = any(isinstance(row[place], int | float) for row in table.rows)
        # what names a row is read whole, and copied
        named = min(LONGEST_NAME, max((len(str(row[place])) for row in table.rows), default=0)) if not place else None
        shown.add_column(escape(name), justify="right" if numbers else "left", min_width=named, overflow="fold")
    for row in table.rows:
        pairs = zip(table.columns, row, strict=True)
        shown.add_row(*(_plain_text(_figure(value, table.digits, head == "p")) for head, value in pairs))
    console = stdout()
    console.print()
    console.print(shown)
    if table.note:
        console.print(f"[dim]{_plain_text(table.note)}[/]")
    for line in table.examples:
        console.print(f"[dim]· {_plain_text(line)}[/]")


def show_lines(heading: str, lines: Iterable[str]) -> None:
    """Sentences below a heading; nothing if there are none."""
    for place, line in enumerate(lines):
        if not place:
            stdout().print(f"\n[bold]{heading}[/]")
        stdout().print(f"· {_plain_text(line)}")


def _plain_text(text: str) -> str:
    """Text from files as it can be shown: neither markup nor a sign that acts on a terminal."""
    return escape("".join(sign if sign.isprintable() or sign == "\n" else "\ufffd" for sign in text))


def _figure(value: Any, digits: int | None, is_p: bool = False) -> str:
    if is_p and isinstance(value, float) and value < P_SHOWN:
        return f"<{P_SHOWN}"  # no p-value is 0
    if isinstance(value, float):
        return f"{value:g}" if digits is None else f"{value:.{digits}f}"
    return "–" if value is None else str(value)


class Terminal:
    """A `pipelines.talk.Talk` on stderr, with live progress where it is a terminal."""

    def __init__(self) -> None:
        self._console = stderr()

    def note(self, text: str) -> None:
        """Something worth knowing."""
        self._console.print(f"[dim]{_plain_text(text)}[/]")

    def warn(self, text: str) -> None:
        """Something that may surprise."""
        self._console.print(f"[yellow]warning:[/] {_plain_text(text)}")

    @contextmanager
    def progress(self, label: str, total: float | None) -> Iterator["_Line | _LogLines"]:
        """A bar with counts, rate and time left; a line now and then when stderr is a file."""
        if not self._console.is_terminal:
            yield _LogLines(self._console, label, total)
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("[dim]{task.fields[now]}"),
        )
        with Progress(*columns, console=self._console, transient=True) as shown:
            yield _Line(shown, shown.add_task(label, total=total, now="", rate=""))


class _LogLines:
    """Progress where nothing can be drawn over: at most one line every `LOG_SECONDS`."""

    def __init__(self, console: Console, label: str, total: float | None) -> None:
        self._console, self._label, self._total = console, label, total
        self._done, self._said = 0.0, time.monotonic()

    def advance(self, steps: float = 1) -> None:
        """`steps` more are done."""
        self._done += steps
        if time.monotonic() - self._said >= LOG_SECONDS:
            self._said = time.monotonic()
            of = "" if self._total is None else f" of {self._total:g}"
            self._console.print(f"[dim]{escape(self._label)}: {self._done:.1f}{of}[/]")

    def say(self, text: str) -> None:
        """Not worth a line."""


class _Line:
    def __init__(self, shown: Progress, task: TaskID) -> None:
        self._shown, self._task = shown, task

    def advance(self, steps: float = 1) -> None:
        """`steps` more are done."""
        self._shown.advance(self._task, steps)
        speed = self._shown.tasks[self._shown.task_ids.index(self._task)].speed
        if speed:
            self._shown.update(self._task, rate=f"{speed:.1f}/s")

    def say(self, text: str) -> None:
        """What is being worked on now."""
        self._shown.update(self._task, now=_plain_text(text))
