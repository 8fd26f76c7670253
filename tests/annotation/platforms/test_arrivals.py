"""Lists as platforms export them: what is wrong with a file is said as it is."""

from pathlib import Path

import msgspec
import pytest

from ctxr.annotation.platforms.arrivals import read_list
from ctxr.errors import DataError, UsageError


class Row(msgspec.Struct, frozen=True):
    """What the tests list."""

    id: int


def test_a_list_and_a_page_are_read_with_a_byte_order_mark_or_without(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    for text in ('[{"id": 1}, {"id": 2}]', '{"results": [{"id": 1}, {"id": 2}]}'):
        for encoding in ("utf-8", "utf-8-sig"):
            path.write_text(text, encoding=encoding)
            assert read_list(path, Row, "") == [Row(1), Row(2)]


@pytest.mark.parametrize(
    ("content", "message", "cut"),
    [
        (b'[{"id": 1}, {"id"', r"export\.json:2: .*truncated", True),
        (b"", r"export\.json:1: .*truncated", True),
        ('["caf\u00e9'.encode()[:-1], r"export\.json:1 is not UTF-8 text: byte 0xc3", False),
        (b'[{"id": 1}, oops]', r"export\.json:2: .*malformed", False),
        (b'[{"id": 1}, {"id": "x"}]', r"export\.json:2: Expected `int`", False),
        (b"{}", r"export\.json .*list of results", False),
        (b"HITId,WorkerId\n", r"export\.json .*JSON: .*'HITId,WorkerId'", False),
        ("[1]".encode("utf-16"), r"export\.json:1 is not UTF-8 text but UTF-16", False),
        ('["caf\u00e9 x"]'.encode("cp1252"), r"export\.json:1 is not UTF-8 text: byte 0xe9", False),
    ],
)
def test_what_is_wrong_with_a_file_is_said_as_it_is(content: bytes, message: str, cut: bool, tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_list(path, Row, "export it again")
    assert ("cut short" in caught.value.hint) == cut
    with pytest.raises(UsageError, match="cannot be read"):
        read_list(tmp_path / "nothing.json", Row, "export it again")
