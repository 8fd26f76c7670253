"""How tables look on terminals of any width."""

import pytest

from ctxr.cli.render import pieces, show_table
from ctxr.engine.report import Table

RUNS = tuple(f"clip-run-number-{number}" for number in range(8))
COMPARED = Table(
    "valid: against clip-none",
    ("run", "on", "queries", "accuracy", "difference", "p flips", "Holm", "McNemar", "Holm "),
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
