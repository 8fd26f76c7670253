"""Text on pictures: counted and measured, never kept."""

import shutil

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from ctxr.errors import CtxrError, DataError, UsageError
from ctxr.media.text_area import NO_TEXT, TextReader

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
def test_a_picture_without_words_has_none() -> None:
    reader = TextReader()
    assert reader.measure(np.full((90, 160, 3), 99, np.uint8)) == NO_TEXT
    assert reader.measure(np.zeros((1, 1), np.uint8)) == NO_TEXT
    noise = np.random.default_rng(0).integers(0, 255, (90, 160, 3)).astype(np.uint8)
    assert reader.measure(noise) == NO_TEXT


@needs_tesseract
def test_larger_words_cover_more() -> None:
    reader = TextReader()
    assert reader.measure(titled("Hello", 1.0)).area_share < reader.measure(titled("Hello", 2.5)).area_share


@needs_tesseract
def test_a_word_of_low_confidence_does_not_count() -> None:
    assert TextReader(min_confidence=100).measure(titled("Breaking news")) == NO_TEXT


@needs_tesseract
def test_both_engines_see_the_same_words() -> None:
    pytest.importorskip("tesserocr")
    inside, outside = TextReader("tesserocr"), TextReader("pytesseract")
    for words in ("Breaking news", "Add two eggs", "Final score"):
        # tesserocr brings a Tesseract of its own, of another version: confidences differ a little
        one, other = inside.measure(titled(words)), outside.measure(titled(words))
        assert one.words == other.words
        assert one.area_share == pytest.approx(other.area_share, rel=0.1)


@needs_tesseract
def test_pixels_of_another_kind_are_refused() -> None:
    with pytest.raises(DataError, match="alpha channel"):
        TextReader().measure(np.zeros((4, 4, 4), np.uint8))


def test_a_machine_without_tesseract_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("pytesseract.pytesseract.get_tesseract_version", _missing)
    monkeypatch.setattr("pytesseract.get_tesseract_version", _missing)
    with pytest.raises(CtxrError, match="Tesseract is not installed") as caught:
        TextReader("pytesseract")
    assert "apt install tesseract-ocr" in caught.value.hint


def _missing() -> str:
    raise FileNotFoundError("tesseract")


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown OCR engine"):
        TextReader("abbyy")
