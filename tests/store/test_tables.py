"""Tables: strict to read, canonical to write."""

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxr.errors import DataError
from ctxr.store.records import Failure, Image, LedgerRow, Shot, Split
from ctxr.store.tables import encode_row, read_table, write_table


def test_a_table_comes_back_as_it_was_written_and_sorted(tmp_path: Path) -> None:
    rows = [Shot("b", 0, 0, Fraction(0), 9, Fraction(1001, 30000)), Shot("a", 1, 0, Fraction(1, 3), 5, Fraction(2))]
    assert write_table(tmp_path / "t.jsonl", rows) == 2
    assert read_table(tmp_path / "t.jsonl", Shot) == [rows[1], rows[0]]
    assert b'"end_time":"1001/30000"' in encode_row(rows[0])


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.builds(
            LedgerRow,
            source=st.text(max_size=5),
            index=st.integers(0, 10**9),
            time=st.none() | st.fractions(),
            shot=st.none() | st.integers(0, 99),
            value=st.none() | st.floats(allow_nan=False, allow_infinity=False),
        ),
        unique_by=lambda row: row.key(),
        max_size=6,
    )
)
def test_any_table_round_trips(tmp_path_factory: pytest.TempPathFactory, rows: list[LedgerRow]) -> None:
    path = tmp_path_factory.mktemp("tables") / "t.jsonl"
    write_table(path, rows)
    assert sorted(read_table(path, LedgerRow), key=lambda row: row.key()) == sorted(rows, key=lambda row: row.key())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"group":"caf\xe9","split":"train"}', r"t\.jsonl:2: "),
        (b'{"group":"a"}', r"t\.jsonl:2: .*missing required field `split`"),
        (b'{"group":"a","split":"dev"}', r"t\.jsonl:2: field `split`: 'dev' .* 'train', 'valid', 'test'$"),
        (b'{"group":"a","split":"test","colour":1}', r"t\.jsonl:2: .*unknown field `colour`"),
        (b'{"group":"a","spl', r"t\.jsonl:2: "),
        (b"[1]", r"t\.jsonl:2: Expected `object`"),
    ],
)
def test_a_hand_edited_row_is_named_by_line_and_id(tmp_path: Path, line: bytes, message: str) -> None:
    (tmp_path / "t.jsonl").write_bytes(b'{"group":"z","split":"train"}\n' + line + b"\n")
    with pytest.raises(DataError, match=message):
        read_table(tmp_path / "t.jsonl", Split)


def test_a_damaged_table_is_never_to_be_deleted(tmp_path: Path) -> None:
    file = tmp_path / "rounds" / "001" / "images.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("{\n")
    with pytest.raises(DataError) as caught:
        read_table(file, Image)
    assert caught.value.hint.startswith("restore the line")
    (file.parent / "manifest.json").write_text("{}")
    with pytest.raises(DataError) as caught:
        read_table(file, Image)
    assert f"command that made {file.parent} again" in caught.value.hint


def test_a_byte_order_mark_and_blank_lines_are_no_error(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_bytes(b'\xef\xbb\xbf{"group":"a","split":"train"}\r\n\n')
    assert read_table(tmp_path / "t.jsonl", Split) == [Split("a", "train")]


def test_a_key_that_occurs_twice_is_refused_in_reading_and_in_writing(tmp_path: Path) -> None:
    row = '{"group":"a","split":"train"}\n'
    (tmp_path / "t.jsonl").write_text(row + row)
    with pytest.raises(DataError, match=r"rows 1 and 2 .*group='a'"):
        read_table(tmp_path / "t.jsonl", Split)
    with pytest.raises(DataError, match=r"two rows .*group='a'"):
        write_table(tmp_path / "u.jsonl", [Split("a", "train"), Split("a", "test")])


def test_a_missing_table_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.jsonl is missing"):
        read_table(tmp_path / "none.jsonl", Failure)


def test_a_time_that_is_no_fraction_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(
        '{"source":"a","shot":0,"start_index":0,"start_time":"1/0","end_index":1,"end_time":"1/2"}\n'
    )
    with pytest.raises(DataError, match=r"t\.jsonl:1: field `start_time`: '1/0'"):
        read_table(tmp_path / "t.jsonl", Shot)
