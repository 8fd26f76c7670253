"""Text in pictures: what is counted, what is never kept, which pictures are spared, and a Tesseract that misbehaves."""

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from skimage import data as photographs

from ctxr.errors import CtxrError, DataError, UsageError
from ctxr.media import text_area
from ctxr.media.text_area import NO_TEXT, TextFacts, TextGate, TextReader, _one_thread

Picture = NDArray[np.uint8]
HEAD = "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext\n"


class Told:
    """An engine that says what it was told to, and keeps what it was asked about."""

    name = "told"
    version = "0"

    def __init__(self, *tables: str) -> None:
        self.tables = tables
        self.seen: list[Picture] = []

    @property
    def asked(self) -> int:
        return len(self.seen)

    def read(self, pictures: Sequence[Picture]) -> Iterator[str]:
        for number, grey in enumerate(pictures):
            self.seen.append(grey)
            yield self.tables[min(number, len(self.tables) - 1)]


def row(box: tuple[int, int, int, int], confidence: float, text: str, level: int = 5) -> str:
    return "\t".join(str(field) for field in (level, 1, 1, 1, 1, 1, *box, confidence, text)) + "\n"


def told(monkeypatch: pytest.MonkeyPatch, *tables: str, gate: bool = False) -> tuple[TextReader, Told]:
    engine = Told(*(HEAD + table for table in tables))
    monkeypatch.setattr(text_area, "_Tesserocr", lambda: engine)
    if not gate:
        read_all(monkeypatch)
    return TextReader(), engine


def read_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open the gate: the whole of every picture is read."""
    monkeypatch.setattr(TextGate, "regions", lambda _, grey: [(0, 0, *grey.shape[::-1])])


def blank() -> Picture:
    return np.full((320, 640, 3), 200, np.uint8)


def photo(text: str = "") -> Picture:
    picture = np.asarray(cv2.resize(photographs.chelsea(), (640, 426)), np.uint8)
    if text:
        cv2.rectangle(picture, (30, 340), (620, 420), (0, 0, 0), -1)
        cv2.putText(picture, text, (50, 395), cv2.FONT_HERSHEY_SIMPLEX, 1.2, (255, 255, 255), 2, cv2.LINE_AA)
    return picture


LEFT, HOSTILE = row((0, 0, 64, 32), 90, "left"), "ignore\u2028all\x0cprevious;$(rm)" + "x" * 5000


@pytest.mark.parametrize(
    ("table", "facts"),
    [
        (LEFT + row((32, 0, 64, 32), 70, "right"), TextFacts(96 * 32 / (640 * 320), 2, 80.0)),
        (
            LEFT + row((1, 0, 64, 32), 80, "left") + row((64, 0, 10, 32), 70, "right"),
            TextFacts(74 * 32 / (640 * 320), 2, 80.0),
        ),
        (row((0, 0, 64, 32), 60, "abc"), TextFacts(64 * 32 / (640 * 320), 1, 60.0)),
        (row((-5, -5, 10_000, 10_000), 99, HOSTILE), TextFacts(1.0, 1, 99.0)),
        ("", NO_TEXT),
        (row((0, 0, 64, 32), 59.9, "unsure"), NO_TEXT),
        (row((0, 0, 64, 32), 95, "ab"), NO_TEXT),
        (row((0, 0, 64, 32), 95, "|~--.,"), NO_TEXT),
        (row((0, 0, 64, 32), 95, "line", level=4), NO_TEXT),
        (row((0, 0, 64, 32), -1, ""), NO_TEXT),
        ("5\t1\n" + "\t" * 30 + "\n", NO_TEXT),
    ],
    ids=[
        "overlap once", "read twice", "both limits", "hostile", "nothing", "unsure", "short", "signs", "no word", "empty", "torn"
    ],
)  # fmt: skip
def test_sure_words_are_counted_once_and_not_kept(
    monkeypatch: pytest.MonkeyPatch, table: str, facts: TextFacts
) -> None:
    reader, _ = told(monkeypatch, table)
    assert reader.measure(blank()) == facts
    assert "ignore" not in repr(facts) + repr(reader.describe())


def test_places_that_look_like_text_are_read_where_the_whole_shows_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    words = row((8, 8, 64, 32), 90, "left")
    reader, engine = told(monkeypatch, "", words, "", gate=True)
    facts = reader.measure(photo("Breaking news tonight"))
    whole, part, bare = engine.seen
    assert whole.shape == (426, 640)
    assert (part[8:-8, 8:-8] == bare).all()
    assert part[:, part.shape[1] // 2].max() == 255
    assert part.size < whole.size / 4
    assert facts == TextFacts(64 * 32 / whole.size, 1, 90.0)


@pytest.mark.parametrize("shape", [(0, 0, 3), (1, 4000, 3), (3, 3), (64, 5120)])
def test_a_picture_too_low_to_read_is_not_read(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]) -> None:
    reader, engine = told(monkeypatch, row((0, 0, 9, 9), 99, "word"))
    facts = reader.measure(np.zeros(shape, np.uint8))
    assert (facts == NO_TEXT) == (engine.asked == 0)
    assert (engine.asked == 0) == (shape in {(0, 0, 3), (1, 4000, 3)})


def test_the_gate_spares_photos_and_blank_pictures_and_lets_words_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, engine = told(monkeypatch, row((0, 0, 64, 32), 99, "word"), gate=True)
    for picture in (photo(), blank()):
        assert reader.measure(picture) == NO_TEXT
    assert engine.asked == 0
    assert reader.measure(photo("Breaking news tonight")).words == 1
    assert engine.asked == 1  # no parts where the whole shows a word


@pytest.mark.parametrize("levels", [4, 12, 55])
def test_the_gate_sees_letters_of_any_contrast_on_a_flat_picture(levels: int) -> None:
    grey = np.full((360, 640), 200, np.uint8)
    assert not TextGate().regions(grey)
    cv2.putText(grey, "Breaking news", (40, 200), cv2.FONT_HERSHEY_SIMPLEX, 1.5, 200 + levels, 3, cv2.LINE_AA)
    assert TextGate().regions(grey)[0] == (0, 0, 640, 360)


def test_the_gate_lets_pass_what_reaches_both_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, hot = TextGate(), np.full((10, 100), text_area.HOT - 1, np.float32)
    monkeypatch.setattr(gate, "heat", lambda _: hot)
    hot[5:7, 20:23] = text_area.HOT + 1
    hot[6, 22] = text_area.HOT
    grey = np.zeros((80, 800), np.uint8)
    assert gate.regions(grey) == []
    hot[6, 22] = text_area.HOT + 1
    assert gate.regions(grey) == [(0, 0, 800, 80), (144, 32, 56, 32), (152, 40, 40, 16)]


def test_the_gate_stands_in_the_description(monkeypatch: pytest.MonkeyPatch) -> None:
    gate: Any = told(monkeypatch, "")[0].describe()["gate"]
    assert set(gate) == {"weights_sha256", "threshold", "least_share"}


def use_program(monkeypatch: pytest.MonkeyPatch, folder: Path, body: str, language: str = "eng") -> None:
    """A stand-in for the program `tesseract`, which answers what pytesseract asks at the start."""
    file = folder / "tesseract"
    start = f'case "$1" in\n--version) echo "tesseract 5.3.0"; exit;;\n--list-langs) echo "List (1):"; echo {language}; exit;;\nesac\n'
    file.write_text(f"#!/bin/sh\n{start}{body}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr("pytesseract.pytesseract.tesseract_cmd", str(file))


def test_a_tesseract_that_hangs_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []

    class Begun(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            begun.append(self.pid)

    use_program(monkeypatch, tmp_path, "exec sleep 600")
    read_all(monkeypatch)
    reader = TextReader("pytesseract")
    monkeypatch.setattr(text_area, "TIMEOUT", 0.1)
    monkeypatch.setattr(subprocess, "Popen", Begun)
    with pytest.raises(DataError, match="picture of 640x320"):
        reader.measure(blank())
    with pytest.raises(ProcessLookupError):
        os.kill(begun[-1], 0)


def test_only_tesseract_is_told_to_use_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_THREAD_LIMIT", raising=False)
    body = f"echo $OMP_THREAD_LIMIT > {tmp_path}/threads\nprintf '%s' '{HEAD}' > $2.tsv"
    use_program(monkeypatch, tmp_path, body)
    read_all(monkeypatch)
    assert TextReader("pytesseract").measure(blank()) == NO_TEXT
    assert (tmp_path / "threads").read_text() == "1\n"
    assert "OMP_THREAD_LIMIT" not in os.environ


def test_a_tesseract_that_fails_or_has_no_english_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_program(monkeypatch, tmp_path, "echo broken >&2\nexit 3")
    read_all(monkeypatch)
    with pytest.raises(DataError, match="broken"):
        TextReader("pytesseract").measure(blank())
    use_program(monkeypatch, tmp_path, "exit 1", language="deu")
    with pytest.raises(CtxrError, match="no language file 'eng'") as raised:
        TextReader("pytesseract")
    assert "tesseract-ocr-eng" in raised.value.hint


def test_a_missing_extra_is_named_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tesserocr", None)
    with pytest.raises(CtxrError, match="tesserocr is not"):
        TextReader("tesserocr")


needs_tesseract = pytest.mark.skipif(shutil.which("tesseract") is None, reason="tesseract is not installed")


def titled(words: str, size: float = 1.4) -> NDArray[np.uint8]:
    picture = np.full((180, 480, 3), 230, np.uint8)
    cv2.putText(picture, words, (20, 100), cv2.FONT_HERSHEY_SIMPLEX, size, (10, 10, 10), 3, cv2.LINE_AA)
    return picture


@needs_tesseract
@pytest.mark.parametrize("engine", ["auto", "pytesseract"])
def test_words_are_counted_with_their_share_of_the_picture(engine: str) -> None:
    facts = TextReader(engine).measure(titled("Breaking news"))
    assert facts.words == 2
    assert facts.confidence > 60
    assert 0.05 < facts.area_share < 0.3


@needs_tesseract
def test_a_picture_without_words_has_none_and_larger_words_cover_more() -> None:
    reader = TextReader()
    noise = np.random.default_rng(0).integers(0, 255, (90, 160, 3)).astype(np.uint8)
    for picture in (np.full((90, 160, 3), 99, np.uint8), np.zeros((1, 1), np.uint8), noise):
        assert reader.measure(picture) == NO_TEXT
    assert reader.measure(titled("Hello", 1.0)).area_share < reader.measure(titled("Hello", 2.5)).area_share


@needs_tesseract
def test_both_engines_see_the_same_words() -> None:
    pytest.importorskip("tesserocr", reason="tesserocr is not installed")
    inside, outside = TextReader("tesserocr"), TextReader("pytesseract")
    for words in ("Breaking news", "Add two eggs", "Final score"):
        # tesserocr brings a Tesseract of its own, of another version: confidences differ a little
        one, other = inside.measure(titled(words)), outside.measure(titled(words))
        assert one.words == other.words
        assert one.area_share == pytest.approx(other.area_share, rel=0.1)


@needs_tesseract
@pytest.mark.parametrize("engine", ["auto", "pytesseract"])
def test_pictures_read_together_have_a_table_each(engine: str) -> None:
    pictures = [text_area.working_size(titled(words)) for words in ("Breaking news", "Final", "Add two eggs")]
    tables = TextReader(engine).engine.read(pictures)
    assert [len(list(text_area.words_in(table))) for table in tables] == [2, 1, 3]


def test_a_machine_without_tesseract_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("pytesseract.pytesseract.get_tesseract_version", _missing)
    monkeypatch.setattr("pytesseract.get_tesseract_version", _missing)
    with pytest.raises(CtxrError, match="Tesseract is not") as caught:
        TextReader("pytesseract")
    assert "apt install tesseract-ocr" in caught.value.hint


def _missing() -> str:
    raise FileNotFoundError("tesseract")


def test_an_unknown_engine_and_pixels_of_another_kind_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="unknown OCR engine"):
        TextReader("abbyy")
    with pytest.raises(DataError, match="alpha channel"):
        told(monkeypatch, "")[0].measure(np.zeros((4, 4, 4), np.uint8))


LONG = 20.0  # seconds after which a test that hangs gives up


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("first_out", ["a", "b"])
def test_uses_that_overlap_leave_every_thread_as_many_as_before(three_threads: None, first_out: str) -> None:
    inside, leave = ({name: Event() for name in "ab"} for _ in range(2))

    def use(name: str) -> int:
        with _one_thread():
            during = torch.get_num_threads()
            inside[name].set()
            assert leave[name].wait(LONG)
        return during

    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as two, ThreadPoolExecutor(1) as fresh:
        uses = {}
        for name, pool in (("a", one), ("b", two)):
            uses[name] = pool.submit(use, name)
            assert inside[name].wait(LONG)
        for name in sorted("ab", reverse=first_out == "b"):
            leave[name].set()
            assert uses[name].result(LONG) == 1
        assert [pool.submit(torch.get_num_threads).result(LONG) for pool in (one, two, fresh)] == [3, 3, 3]
    assert torch.get_num_threads() == 3


def test_a_use_that_fails_leaves_as_many_as_before(three_threads: None) -> None:
    with pytest.raises(ValueError, match="broken"), _one_thread():
        raise ValueError("broken")
    assert torch.get_num_threads() == 3


def test_scores_at_the_same_time_are_those_one_after_the_other(three_threads: None) -> None:
    gate = TextGate()
    pictures = [np.random.default_rng(seed).integers(0, 256, (96, 160)).astype(np.uint8) for seed in range(12)]
    alone = [gate.heat(picture) for picture in pictures]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(gate.heat, pictures))
        assert set(pool.map(lambda _: torch.get_num_threads(), range(8))) == {3}
    assert np.array_equal(together, alone)
    assert torch.get_num_threads() == 3
