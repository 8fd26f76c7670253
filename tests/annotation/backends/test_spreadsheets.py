"""Cells that a person opens in a spreadsheet never run, and come back as they were."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxr.annotation.backends.spreadsheets import markup, neutral, read_csv, restored, shown, write_csv
from ctxr.errors import DataError, UsageError

CELLS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30)
DANGEROUS = ("=1+1", "+1", "-2+3", "@SUM(A1)", "=HYPERLINK(1)", "\t=1", "\r=1")


@given(st.one_of(CELLS, st.text("'=+-@a", max_size=6), st.sampled_from(DANGEROUS)))
def test_a_neutral_cell_is_no_formula_and_comes_back(cell: str) -> None:
    assert not neutral(cell).startswith(("=", "+", "-", "@", "\t", "\r"))
    assert restored(neutral(cell)) == cell


@given(st.one_of(CELLS, st.sampled_from((*DANGEROUS, "a ${unit} b"))))
def test_markup_is_no_formula_and_shows_the_same(cell: str) -> None:
    written = markup(cell)
    assert not written.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert "${" not in written
    assert "<" not in written.replace("<br>", "")
    assert shown(written) == " ".join(cell.split())


@given(st.lists(st.tuples(CELLS, CELLS), max_size=5))
def test_a_table_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("csv") / "table.csv"
    path.write_bytes(write_csv(("a", "b"), [{"a": one, "b": other} for one, other in rows]))
    header, read = read_csv(path)
    assert header == ["a", "b"]
    assert [(row["a"], row["b"]) for row in read.values()] == rows


def test_a_row_is_named_by_the_line_on_which_it_begins(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(b'a,b\r\n"one\r\ntwo",x\r\nthree,"four\n\nfive"\r\nsix,seven\r\n')
    _, rows = read_csv(path)
    assert [(line, row["a"]) for line, row in rows.items()] == [(2, "one\r\ntwo"), (4, "three"), (7, "six")]


def test_a_table_that_breaks_off_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    whole = write_csv(("a", "b"), [{"a": "one\ntwo", "b": "x"}, {"a": "three", "b": "four"}]).decode()
    path.write_text(whole[:-6])
    with pytest.raises(DataError, match=r"table\.csv:4: .*(end of data|cells)"):
        read_csv(path)
    path.write_text(whole.replace(',"four"', ""))
    with pytest.raises(DataError, match=r"table\.csv:4: the row has 1 cells, the header 2"):
        read_csv(path)
    path.write_text(whole + '"a" b,"c"\n')
    with pytest.raises(DataError, match=r"table\.csv:5: "):
        read_csv(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="not UTF-8"):
        read_csv(path)
    path.write_bytes(b"")
    with pytest.raises(DataError, match="is empty"):
        read_csv(path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_csv(tmp_path / "nothing.csv")


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        (b"HITId;WorkerId\r\n1;2\r\n", "has semicolons between its cells", "without saving it from a spreadsheet"),
        (b'"HITId"\t"WorkerId"\n', "has tabs between its cells", "without saving it from a spreadsheet"),
        (b'[{"id": 1}]', "is JSON and no CSV", "--from label-studio"),
        ("a,b\ncaf\u00e9,c\n".encode("cp1252"), r"table\.csv:2 is not UTF-8 text: byte 0xe9", "as UTF-8"),
        ("a,b\n".encode("utf-16"), "is not UTF-8 text but UTF-16", "CSV UTF-8"),
        ("a,b\n1,caf\u00e9".encode()[:-1], r"table\.csv:2 ends within a character", "cut short"),
    ],
)
def test_what_a_spreadsheet_made_of_it_is_said(content: bytes, message: str, hint: str, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_csv(path)
    assert hint in caught.value.hint
