"""How tables look on terminals of any width, and progress where nothing can be drawn over."""

import re
import sys

import pytest

from ctxr.cli.render import LOG_SECONDS, Terminal, pieces, show_table
from ctxr.engine.report import Table

RUNS = tuple(f"clip-run-number-{number}" for number in range(8))
COMPARED = Table(
    "valid: against clip-none",
    ("run", "on", "queries", "accuracy", "difference", "p flips", "Holm", "McNemar", "Holm McNemar"),
    tuple(
        (run, part, 1038, "13.2 (5.3–23.1)", "-33.3 (-43.3 to -23.3)", "0.561", "<0.001", "–", "–")
        for run in RUNS
        for part in ("all", "video")
    ),
)
BY_SOURCE = Table(
    "by source", ("source", "queries", *RUNS), tuple((name, 32, *["13.2 (5.3–23.1)"] * 8) for name in ("a", "b"))
)


@pytest.mark.parametrize("table", [COMPARED, BY_SOURCE])
def test_a_narrow_terminal_breaks_no_word_and_no_number(
    table: Table, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    show_table(table)
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    for text in {str(cell) for row in (table.columns, *table.rows) for cell in row}:
        assert text.strip() in shown
    assert shown.count(table.title) == 1


def test_every_piece_says_what_its_rows_are_and_each_column_stands_once() -> None:
    found = pieces(COMPARED, 80)
    assert len(found) > 1
    assert all(places[:2] == [0, 1] for places in found)
    assert [place for places in found for place in places[2:]] == list(range(2, 9))
    assert pieces(COMPARED, 200) == [list(range(9))]


def test_a_pipe_gets_a_line_at_the_start_of_a_task_and_ten_seconds_after_any_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now, waits = 0.0, list[float]()
    terminal = Terminal(lambda: now)
    with terminal.task("training [seed 0]", 1200) as task, terminal.task("pairs", None):
        pass

    def ended(seconds: float) -> bool:
        nonlocal now
        waits.append(seconds)
        if len(waits) == 2:
            now += 4
            terminal.note("a note")
            now -= 4
        now += seconds
        return len(waits) == 5

    terminal.beat("train", ended)
    with terminal.task("training [seed 0]", 1200) as task:
        task.advance(500.5)
        waits.clear()
        terminal.beat("train", ended)
    assert capsys.readouterr().err.splitlines() == [
        *("training [seed 0]", "pairs"),
        *("train, 10 s", "a note", "train, 24 s", "train, 34 s"),
        "training [seed 0]",
        *("training [seed 0]: 500.5 of 1,200, 10 s", "a note"),
        *("training [seed 0]: 500.5 of 1,200, 24 s", "training [seed 0]: 500.5 of 1,200, 34 s"),
    ]
    assert waits == [LOG_SECONDS, LOG_SECONDS, 4, LOG_SECONDS, LOG_SECONDS]


@pytest.mark.parametrize("colour", [{}, {"FORCE_COLOR": "1"}], ids=["plain", "coloured"])
def test_no_bar_is_drawn_into_a_pipe(
    colour: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in colour.items():
        monkeypatch.setenv(name, value)
    with Terminal().task("loading", None) as task:
        task.advance()
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert "\r" not in shown
    assert "━" not in shown


def test_a_bar_leaves_nothing_on_a_terminal_that_cannot_take_back_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for total in (None, 3):
        with Terminal().task("loading", total) as task:
            task.advance()
    shown = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", capsys.readouterr().err)
    assert "loading" in shown
    assert "0/?" not in shown
    assert "\n" not in shown
    assert "loading" not in shown.rpartition("\r")[2]
