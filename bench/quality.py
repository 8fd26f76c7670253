"""Blur and text: BRISQUE against piq, its two sets of weights against each other, and reading text beside pytesseract.

python -m bench quality
python -m bench.quality gate 600     what is lost of the words drawn on as many pictures
python -m bench.quality text         seconds per picture
"""

import os
import sys
import warnings
from collections.abc import Callable
from functools import lru_cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from unittest.mock import patch

import cv2
import numpy as np
import pytesseract
from PIL import Image

from bench.overlays import Box, Picture, fit, overlay, photos, real_folder, real_photos
from bench.processes import one_thread
from bench.table import Row, median_seconds
from ctxr.media.brisque import Brisque
from ctxr.media.text_area import TextGate, TextReader, words_in, working_size
from ctxr.media.text_area import _language_folder as language_folder
from ctxr.metrics.proportions import exact_interval

SIZES = ((360, 640), (720, 1280))
PUBLISHED = 0.65
PICTURES = 20
ROUNDS = 7
CONFIDENCE = 60.0


_PIQ_NOTES = {
    "": "",
    "float64": "as piq computes with the weights that it downloads, which are float64",
    "float32": "piq with those weights cast first, which its users would have to do themselves",
}


def measure() -> list[Row]:
    """BRISQUE per picture, agreement of the weights, text per picture, recall of the gate."""
    return [*brisque_rows(), *weights_rows(), *text_rows(), *gate_rows(300)]


def brisque_rows() -> list[Row]:
    """Ours against `piq.brisque` on one thread, turn by turn, in float64 (as piq runs with its weights) and in float32."""
    ours = Brisque()
    rows = []
    # flat areas cost more: there the rounding errors of piq's convolution are followed to the last bit
    pictures = [("", photos()[2], height, width) for height, width in SIZES]
    pictures.append((", nine tenths flat", _mostly_flat(photos()[2]), *SIZES[1]))
    for kind, picture, height, width in pictures:
        rgb = np.ascontiguousarray(fit(picture, height, width))
        calls: dict[str, Callable[[], object]] = {"": lambda rgb=rgb: ours.score(rgb)}  # type: ignore[misc]
        calls |= piq_calls(rgb)
        with one_thread():
            rounds = [[median_seconds(call, 1) for call in calls.values()] for _ in range(ROUNDS + 1)]
        seconds, *peers = np.median(rounds[1:], axis=0).tolist()
        for precision, taken in zip(list(calls)[1:] or [""], peers or [None], strict=True):
            rows.append(
                Row(
                    figure=f"BRISQUE {width}x{height}{kind}",
                    seconds=seconds,
                    against=f"piq.brisque {precision}" if taken else "",
                    against_seconds=taken,
                    target=">= 8 x piq" if taken else "",
                    met=seconds * 8 <= taken if taken else None,
                    note=_PIQ_NOTES[precision] if taken else "piq's weights are not at hand",
                )
            )
    return rows


def _mostly_flat(picture: Picture) -> Picture:
    """A title card: a strip of `picture` on one colour."""
    card = np.full_like(picture, 128)
    rows = len(picture) // 10
    card[:rows] = picture[:rows]
    return card


def piq_calls(rgb: Picture) -> dict[str, Callable[[], object]]:
    """`piq.brisque` on `rgb` by precision; empty without its weights."""
    weights = real_folder() / "torch-home" / "hub" / "checkpoints" / "brisque_svm_weights.pt"
    if not weights.exists():
        return {}
    import torch

    module: Any = import_module("piq.brisque")
    stored = torch.load(weights, weights_only=True)

    def score(picture: torch.Tensor) -> None:
        # piq reads its file at every call: given it here in memory, so that only its arithmetic is timed
        parts = tuple(part.to(picture.dtype, copy=True) for part in stored)
        with patch.object(module, "load_url", lambda *_, **__: parts), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module.brisque(picture, data_range=255.0)

    picture = torch.from_numpy(np.array(rgb)).permute(2, 0, 1)[None]
    return {"float64": partial(score, picture.double()), "float32": partial(score, picture.float())}


def weights_rows() -> list[Row]:
    """How far the shipped weights agree with piq's on photos and blurred copies."""
    files = real_folder() / "torch-home"
    if not files.is_dir():
        return []
    os.environ.setdefault("TORCH_HOME", str(files.resolve()))
    live, piq = Brisque("live"), Brisque("piq")
    real = [picture for picture in photos() if max(picture.shape) <= 640]
    pictures = [*real, *(np.asarray(cv2.GaussianBlur(picture, (0, 0), 2.0), np.uint8) for picture in real)]
    scores = np.array([(live.score(picture), piq.score(picture)) for picture in pictures])
    same = float(((scores[:, 0] > PUBLISHED) == (scores[:, 1] > PUBLISHED)).mean())
    correlation = float(np.corrcoef(scores.T)[0, 1])
    note = f"{len(pictures)} photos and blurred copies: correlation {correlation:.3f}, same decision at {PUBLISHED} {same:.1%}"
    seconds = median_seconds(lambda: live.score(pictures[0]), 5)
    return [
        Row(
            figure="BRISQUE weights live / piq",
            seconds=seconds,
            target="0.98 and 98 %",
            met=correlation > 0.97 and same >= 0.98,
            note=note,
        )
    ]


def text_rows() -> list[Row]:
    """Seconds per picture, without words and with them, by process and in process, beside pytesseract as its users call it.

    Every picture is read by all in turn; those that hold no word for Tesseract pass the gate where they look like text.
    """
    readers = {"pytesseract": TextReader("pytesseract")}
    if find_spec("tesserocr"):
        readers["tesserocr"] = TextReader("tesserocr")
    everything = real_photos() or photos()
    rows = []
    for height, width in SIZES:
        rng = np.random.default_rng(0)
        seconds: dict[tuple[str, str], list[float]] = {}
        pictures = 0
        for at in rng.permutation(len(everything)):
            picture = np.ascontiguousarray(fit(everything[at], height, width))
            if whole_words(picture):
                continue
            written = overlay(picture, rng, size=28, plain=True)[0]
            for kind, shown in (("without", picture), ("with", written)):
                reads = {"": as_users_read, **{name: reader.measure for name, reader in readers.items()}}
                for name, read in reads.items():
                    taken = median_seconds(lambda read=read, shown=shown: read(shown), 1)  # type: ignore[misc]
                    seconds.setdefault((kind, name), []).append(taken)
            pictures += 1
            if pictures == PICTURES:
                break
        for (kind, name), taken_all in seconds.items():
            peer, mean = float(np.mean(seconds[kind, ""])), float(np.mean(taken_all))
            aim = {"tesserocr": 10, "pytesseract": 3}.get(name) if kind == "without" else None
            if name:
                rows.append(
                    Row(
                        figure=f"text, picture {width}x{height} {kind} words, {name}",
                        seconds=mean,
                        against="pytesseract.image_to_data",
                        against_seconds=peer,
                        target=f">= {aim} x pytesseract" if aim else "",
                        met=mean * aim <= peer if aim else None,
                        note=f"mean of {pictures}, medians {np.median(seconds[kind, '']) / np.median(taken_all):.1f} x",
                    )
                )
    return rows


def as_users_read(rgb: Picture) -> object:
    """A picture in pytesseract, nothing set."""
    return pytesseract.image_to_data(Image.fromarray(rgb))


def whole_words(picture: Picture, place: Box = (0, 0, 1, 1)) -> list[tuple[int, int, int, int]]:
    """Boxes of words that Tesseract finds at `place` in the whole picture at `working_size`: as sparse text, else by its layout.

    Letters drawn over a photo also make it read others into the rest of it: those do not count.
    """
    grey = working_size(picture)
    height, width = grey.shape
    for segmentation in (11, 3):
        boxes = []
        for left, top, wide, high, confidence in words_in(whole_table(grey, segmentation)):
            apart = left > place[2] * width or top > place[3] * height
            apart |= left + wide < place[0] * width or top + high < place[1] * height
            if confidence >= CONFIDENCE and not apart:
                boxes.append((left, top, wide, high))
        if boxes:
            return boxes
    return []


def whole_table(grey: Picture, segmentation: int) -> str:
    """Tesseract's table of a whole picture: in process where that is installed, which is faster."""
    if not find_spec("tesserocr"):
        return str(pytesseract.image_to_data(Image.fromarray(grey), config=f"--psm {segmentation}"))
    engine: Any = in_process()
    engine.SetPageSegMode(segmentation)
    engine.SetImageBytes(grey.tobytes(), grey.shape[1], grey.shape[0], 1, grey.shape[1])
    engine.Recognize()
    return str(engine.GetTSVText(0))


@lru_cache(maxsize=1)
def in_process() -> object:
    """Tesseract in this process."""
    return import_module("tesserocr").PyTessBaseAPI(path=language_folder(), lang="eng")


def gate_rows(count: int) -> list[Row]:
    """Of `count` pictures with drawn words that trained nothing: what is lost of the words that Tesseract finds in the whole
    picture, by the share of the area that they cover; what the gate spares of those without words."""
    rng = np.random.default_rng(1)
    reader, gate = TextReader(), TextGate()
    everything = real_photos(12)
    chosen = rng.permutation(len(everything))[: max(20, count)]
    textless = [everything[at] for at in chosen if not whole_words(everything[at])]
    if not textless:
        return []
    known, shares, passes = [], [], []
    for _ in range(count):
        written, place = overlay(textless[rng.integers(len(textless))], rng)
        covered = np.zeros(working_size(written).shape, np.bool_)
        for left, top, wide, high in whole_words(written, place):
            covered[top : top + high, left : left + wide] = True
        known.append(float(covered.mean()))
        passes.append(bool(gate.regions(working_size(written))))
        shares.append(reader.measure(written).area_share)
    spared = float(np.mean([not gate.regions(working_size(picture)) for picture in textless]))
    seconds = median_seconds(lambda: [gate.regions(working_size(picture)) for picture in textless], 1) / len(textless)
    rows = []
    for limit in (0.0, 0.005, 0.01, 0.02, 0.05):
        above = [at for at, share in enumerate(known) if share > limit]
        kept, passed = sum(shares[at] > limit for at in above), sum(passes[at] for at in above)
        aim, (least, most) = {0.01: 0.98, 0.02: 0.98}.get(limit), exact_interval(kept, len(above))
        recall = f"{kept} of {len(above)} (95 % interval {least:.0%} to {most:.0%})"
        # without a verdict where the interval holds the target
        met = None if aim is None or least < aim <= most else least >= aim
        rows.append(
            Row(
                figure=f"gate before {reader.name}, words on more than {limit:.1%}",
                seconds=seconds,
                target=f"recall >= {aim}" if aim else "",
                met=met,
                note=f"still above: {recall}; passed the gate: {passed}; spares {spared:.0%} of {len(textless)} without",
            )
        )
    return rows


if __name__ == "__main__":
    from bench.__main__ import show

    if sys.argv[1:2] == ["gate"]:
        show("gate", gate_rows(int(sys.argv[2]) if len(sys.argv) > 2 else 600))
    elif sys.argv[1:2] == ["text"]:
        show("text", text_rows())
    else:
        show("quality", measure())
