import errno
from pathlib import Path

import pytest

from ctxr.annotation.pseudonyms import pseudonym, read_key
from ctxr.errors import CtxrError, DataError


def test_a_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    key = read_key(tmp_path / "private")
    assert len(key) == 32
    assert read_key(tmp_path / "private") == key
    assert (tmp_path / "private" / "key").stat().st_mode & 0o077 == 0
    assert [path.name for path in (tmp_path / "private").iterdir()] == ["key"]


def test_a_key_that_is_there_is_read_from_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = read_key(tmp_path)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.open", full)
    assert read_key(tmp_path) == key
    with pytest.raises(CtxrError, match="disk is full"):
        read_key(tmp_path / "new")


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"abcd", b"z" * 64])
def test_a_damaged_key_is_named_and_never_replaced(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(DataError, match="not a key"):
        read_key(tmp_path)
    assert (tmp_path / "key").read_bytes() == content


def test_a_pseudonym_hides_the_person_and_knows_them_again() -> None:
    one = pseudonym(b"k" * 32, "label-studio", "A1EXAMPLE")
    assert one == pseudonym(b"k" * 32, "label-studio", "A1EXAMPLE")
    assert "example" not in one
    assert (
        len({one, pseudonym(b"q" * 32, "label-studio", "A1EXAMPLE"), pseudonym(b"k" * 32, "prolific", "A1EXAMPLE")})
        == 3
    )


def test_a_key_that_is_given_is_taken_once(tmp_path: Path) -> None:
    assert read_key(tmp_path, "ab" * 32) == bytes.fromhex("ab" * 32)
    assert read_key(tmp_path, "cd" * 32) == bytes.fromhex("ab" * 32)
