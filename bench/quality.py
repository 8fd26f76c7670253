"""Blur and text: BRISQUE against piq, its two sets of weights against each other, and reading text with and without the gate.

python -m bench quality
python -m bench.quality gate 2000     what the gate lets pass, on as many pictures with drawn text
"""

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from unittest.mock import patch

import cv2
import numpy as np

from bench.overlays import Box, Picture, fit, overlay, photos, real_folder
from bench.table import Row, median_seconds
from ctxr.media.brisque import Brisque
from ctxr.media.text_area import LAYOUT, SPARSE_TEXT, TextFacts, TextReader, words_in, working_size

SIZES = ((360, 640), (720, 1280))
PUBLISHED = 0.65
PICTURES = 12
ROUNDS = 7
CONFIDENCE = 60.0


_PIQ_NOTES = {
    "": "",
    "float64": "as piq computes with the weights that it downloads, which are float64",
    "float32": "piq with those weights cast first, which its users would have to do themselves",
}


def measure() -> list[Row]:
    """BRISQUE per picture, agreement of the weights, text per picture, recall of the gate."""
    return [*brisque_rows(), *weights_rows(), *text_rows(), *gate_rows(60)]


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


@contextmanager
def one_thread() -> Iterator[None]:
    """OpenCV and torch on one thread each: ctxr measures a picture on one."""
    import torch

    before = torch.get_num_threads(), cv2.getNumThreads()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        cv2.setNumThreads(before[1])


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
    """Seconds per picture of 640x360, without text and with it, by process and in process."""
    plain = TextReader("pytesseract", gate=False)
    rng = np.random.default_rng(0)
    pictures: dict[str, list[Picture]] = {"without text": [], "with text": []}
    facts: dict[str, list[TextFacts]] = {"without text": [], "with text": []}
    everything = photos()
    for at in rng.permutation(len(everything)):
        picture = fit(everything[at], *SIZES[0])
        found = plain.measure(picture)
        if not found.words:
            written = overlay(picture, rng, size=28, plain=True)[0]
            for kind, chosen in (("without text", picture), ("with text", written)):
                pictures[kind].append(chosen)
                facts[kind].append(plain.measure(chosen))
        if len(pictures["without text"]) == PICTURES:
            break
    readers: list[tuple[str, TextReader, int | None]] = [("pytesseract with gate", TextReader("pytesseract"), 3)]
    if find_spec("tesserocr"):
        readers += [
            ("tesserocr", TextReader("tesserocr", gate=False), None),
            ("tesserocr with gate", TextReader("tesserocr"), 10),
        ]
    rows = []
    for kind, chosen_pictures in pictures.items():
        peer = per_picture(plain.measure, chosen_pictures)
        for name, reader, times in readers:
            seconds = per_picture(reader.measure, chosen_pictures)
            aim = times if kind == "without text" else None
            words = [reader.measure(picture).words for picture in chosen_pictures]
            same = sum(found == known.words for found, known in zip(words, facts[kind], strict=True))
            rows.append(
                Row(
                    figure=f"text, picture {kind}, {name}",
                    seconds=seconds,
                    against="pytesseract",
                    against_seconds=peer,
                    target=f">= {aim} x pytesseract" if aim else "",
                    met=seconds * aim <= peer if aim else None,
                    note=f"{same} of {len(words)} with as many words",
                )
            )
    return rows


def per_picture(read: Callable[[Picture], object], pictures: list[Picture]) -> float:
    """Mean seconds per picture."""
    return median_seconds(lambda: [read(picture) for picture in pictures], 1) / max(1, len(pictures))


def gate_rows(count: int) -> list[Row]:
    """Of `count` pictures with drawn words, those in which Tesseract finds some: how many the gate lets pass; what it spares."""
    rng = np.random.default_rng(1)
    reader, gated = TextReader(gate=False), TextReader()
    some = photos()
    chosen = rng.permutation(len(some))[: max(20, count // 2)]
    textless = [some[at] for at in chosen if not reader.measure(some[at]).words]
    passed = []
    for _ in range(count):
        picture, place = overlay(textless[rng.integers(len(textless))], rng)
        if finds(reader, picture, place):
            passed.append(gated.worth_reading(working_size(picture)))
    spared = float(np.mean([not gated.worth_reading(working_size(picture)) for picture in textless]))
    seconds = median_seconds(lambda: [gated.worth_reading(working_size(picture)) for picture in textless], 1) / len(
        textless
    )
    recall = float(np.mean(passed))
    return [
        Row(
            figure="gate before Tesseract, per picture",
            seconds=seconds,
            target="recall >= 0.995",
            met=recall >= 0.995,
            note=f"passes {recall:.4f} of {len(passed)} pictures with words; spares {spared:.0%} of {len(textless)} without",
        )
    ]


def finds(reader: TextReader, picture: Picture, place: Box) -> bool:
    """Whether Tesseract finds a word at `place`: letters drawn over a photo also make it read others into the rest of it."""
    grey = working_size(picture)
    height, width = grey.shape
    for segmentation in (SPARSE_TEXT, LAYOUT):
        for left, top, wide, high, confidence in words_in(reader.engine.read(grey, segmentation)):
            apart = left > place[2] * width or top > place[3] * height
            apart |= left + wide < place[0] * width or top + high < place[1] * height
            if confidence >= CONFIDENCE and not apart:
                return True
    return False


if __name__ == "__main__":
    from bench.__main__ import show

    if sys.argv[1:2] == ["gate"]:
        show("gate", gate_rows(int(sys.argv[2]) if len(sys.argv) > 2 else 2000))
    else:
        show("quality", measure())
