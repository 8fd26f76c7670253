"""How much of a picture is text, by Tesseract, and a gate before it. ImageCoDe drops frames with much text (section 3.1).

The gate, of five convolutions (17,000 weights), was trained on drawn words over the photographs of scikit-image by
`scripts/train_text_gate.py`. It rates cells of 8x8 pixels, and spares pictures with few cells of text: words that cover less than
about half a percent of a picture may be missed (`python -m bench.quality gate`; docs/experiments.md has the table).

Tesseract reads the whole of what passes and, where it finds no word, each region that looks like text. Words are not kept.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ctxr.errors import CtxrError, DataError, UsageError
from ctxr.media.brisque import check_picture
from ctxr.store.hashing import sha256_file

Picture = NDArray[np.uint8]
Floats = NDArray[np.float32]
Box = tuple[int, int, int, int]  # left, top, width, height in pixels

WEIGHTS = Path(__file__).parent / "weights" / "text-gate" / "model.safetensors"
WINDOW = 33  # pixels, over which contrast is evened out
NOISE = 6.0  # grey levels that count as no contrast
FLAT = 8.0  # spread of grey levels below which fewer levels count as none: Tesseract reads faint letters there
LEAST_SPREAD = 0.5  # a smaller spread is an artefact of the codec
CELL = 8  # pixels
HOT = 0.0  # logit from which on a cell looks like text
LEAST_SHARE = 0.006  # of cells with text in a picture that is read; boxes of words are lower than the cells they touch


class Layer(NamedTuple):
    """A convolution of `size` x `size` inputs, `dilation` apart, at every `stride`-th pixel, padded with zeros."""

    channels: int
    size: int
    stride: int
    dilation: int


# from [1, H, W] to [1, H / 8, W / 8], with ReLU between them
LAYERS = (
    Layer(10, 5, 2, 1), Layer(20, 3, 2, 1), Layer(32, 3, 2, 1), Layer(32, 3, 1, 2), Layer(32, 3, 1, 4), Layer(1, 1, 1, 1)
)  # fmt: skip


class TextGate:
    """Finds the regions of a picture that look like text."""

    def __init__(self) -> None:
        from safetensors.numpy import load_file

        self._tensors: dict[str, Floats] = load_file(WEIGHTS)

    def regions(self, grey: Picture) -> list[Box]:
        """What to read of `grey`, uint8 [H, W]: the whole, then regions that look like text, with a margin and not."""
        hot = self.heat(grey) > HOT
        least = LEAST_SHARE * hot.size
        if hot.sum() < least:
            return []
        joined = cv2.dilate(hot.astype(np.uint8), np.ones((3, 5), np.uint8))
        parts = cv2.connectedComponentsWithStats(joined)[2][1:]
        boxes = CELL * parts[parts[:, 4] >= least, :4]
        boxes = np.concatenate([boxes, boxes + CELL * np.array([1, 1, -2, -2])])
        return [
            (0, 0, *grey.shape[::-1]),
            *((int(x), int(y), int(w), int(h)) for x, y, w, h in boxes if min(w, h) > CELL),
        ]

    def heat(self, grey: Picture) -> Floats:
        """Logits [H / 8, W / 8] of the cells of `grey`; higher is more like text."""
        import torch

        with torch.inference_mode(), _one_thread():
            heat = torch.from_numpy(even_contrast(grey))[None, None]
            for number, layer in enumerate(LAYERS):
                heat = heat.relu_() if number else heat
                margin = layer.dilation * (layer.size // 2)
                weight, bias = (torch.from_numpy(self._tensors[f"{number}.{part}"]) for part in ("weight", "bias"))
                # channels last: 1.5 times as fast
                weight = weight.contiguous(memory_format=torch.channels_last)
                heat = torch.nn.functional.conv2d(heat, weight, bias, layer.stride, margin, layer.dilation)
            # letters come in rows: the mean of three cells side by side
            return np.asarray(cv2.blur(heat[0, 0].numpy(), (3, 1)), np.float32)


def even_contrast(grey: Picture) -> Floats:
    """Grey levels minus their local mean, divided by their local spread; -3 to 3."""
    level = grey.astype(np.float32)
    noise = NOISE * min(1.0, max(float(cv2.meanStdDev(grey)[1][0, 0]), LEAST_SPREAD) / FLAT)
    mean = cv2.blur(level, (WINDOW, WINDOW))
    variance = cv2.blur(level * level, (WINDOW, WINDOW)) - mean * mean
    return np.asarray(np.clip((level - mean) / (np.sqrt(np.maximum(variance, 0)) + noise), -3, 3), np.float32)


_LOCK = Lock()
_INSIDE: list[int] = []


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit torch to one thread: with layers so small, threads would wait for one another longer than they work.

    The number belongs to the process and to each thread that has read it, so every thread that leaves restores the number that
    the first one read: a thread that enters while another is inside would read 1.
    """
    import torch

    with _LOCK:
        _INSIDE.append(_INSIDE[0] if _INSIDE else torch.get_num_threads())
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _LOCK:
            torch.set_num_threads(_INSIDE.pop())


ENGINES = ("auto", "tesserocr", "pytesseract")
LANGUAGE = "eng"
NO_LANGUAGE = f"apt install tesseract-ocr-{LANGUAGE}, or set TESSDATA_PREFIX to the folder that has it"
SPARSE_TEXT = 11  # page segmentation: words anywhere, such as overlays on photographs
SIDE = 640  # pixels of the longer side that Tesseract sees; longer ones take 2 to 3.5 times as long for as many words
CHARACTERS = 3  # of a word, at least: leaves and tiles are read as one or two signs in two of three textless pictures
LEAST_CONFIDENCE = 60.0  # of a word that counts, 0..100
LEAST_SIDE = 8  # Tesseract reads nothing smaller
TIMEOUT = 30.0  # seconds; a picture takes 0.05 to 0.5


@dataclass(frozen=True)
class TextFacts:
    """Share of a picture inside the boxes of words, 0..1, number of words, and Tesseract's mean confidence in them, 0..100."""

    area_share: float
    words: int
    confidence: float


NO_TEXT = TextFacts(0.0, 0, 0.0)


class TextReader:
    """Measures the text in pictures. One object per thread.

    Args:
        engine: `tesserocr` (in process, an optional extra), `pytesseract` (a process per picture), or `auto`: tesserocr where it
            is installed and finds its language files.

    Raises UsageError for an unknown engine, CtxrError where the engine, Tesseract or its English language file is missing.
    """

    def __init__(self, engine: str = "auto") -> None:
        if engine not in ENGINES:
            raise UsageError(f"unknown OCR engine {engine!r}", hint=f"choose one of {', '.join(ENGINES)}")
        self.engine: _Tesserocr | _Pytesseract
        try:
            self.engine = _Pytesseract() if engine == "pytesseract" else _Tesserocr()
        except CtxrError:
            if engine != "auto":
                raise
            self.engine = _Pytesseract()
        self.name = self.engine.name
        self._gate = TextGate()

    def measure(self, rgb: Picture) -> TextFacts:
        """Text in a picture, uint8 [H, W, 3] or grey [H, W], at `working_size`.

        Raises DataError for another picture, and where Tesseract fails or takes longer than 30 s (its process is then killed).
        """
        check_picture(rgb)
        grey = working_size(rgb)
        regions = self._gate.regions(grey) if min(grey.shape) >= LEAST_SIDE else []
        covered = np.zeros(grey.shape, np.bool_)
        confidences: list[float] = []
        parts = [grey[top : top + height, left : left + width] for left, top, width, height in regions]
        for number, ((left, top, _, _), table) in enumerate(zip(regions, self.engine.read(parts), strict=True)):
            for x, y, width, height, confidence in words_in(table):
                box = covered[top + y : top + y + height, left + x : left + x + width]
                # a word mostly inside known ones was read twice
                if confidence >= LEAST_CONFIDENCE and 2 * np.count_nonzero(box) <= box.size:
                    box[:] = True
                    confidences.append(confidence)
            if confidences and number == 0:
                break
        if not confidences:
            return NO_TEXT
        return TextFacts(float(covered.mean()), len(confidences), float(np.mean(confidences)))

    def describe(self) -> dict[str, object]:
        """Engine, Tesseract's version and all settings that can change a fact, for manifests."""
        return {
            "engine": self.name,
            "tesseract": self.engine.version,
            "language": LANGUAGE,
            "page_segmentation": SPARSE_TEXT,
            "side": SIDE,
            "min_confidence": LEAST_CONFIDENCE,
            "min_characters": CHARACTERS,
            "gate": {"weights_sha256": sha256_file(WEIGHTS), "threshold": HOT, "least_share": LEAST_SHARE},
        }


def working_size(rgb: Picture) -> Picture:
    """`rgb` as Tesseract sees it: grey, uint8, `SIDE` pixels at its longer side."""
    if not rgb.size:
        return np.empty((0, 0), np.uint8)
    grey = rgb if rgb.ndim == 2 else cv2.cvtColor(np.ascontiguousarray(rgb), cv2.COLOR_RGB2GRAY)
    scale = SIDE / max(grey.shape)
    if scale == 1:
        return np.ascontiguousarray(grey)
    size = (max(1, round(grey.shape[1] * scale)), max(1, round(grey.shape[0] * scale)))
    return np.asarray(cv2.resize(grey, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC), np.uint8)


def words_in(table: str) -> Iterator[tuple[int, int, int, int, float]]:
    """Left, top, width, height and confidence of the words in Tesseract's table, which are rows of level 5."""
    for line in table.split("\n"):
        fields = line.split("\t")
        if len(fields) == 12 and fields[0] == "5" and sum(sign.isalnum() for sign in fields[11]) >= CHARACTERS:
            left, top, width, height = (int(field) for field in fields[6:10])
            yield max(0, left), max(0, top), width, height, float(fields[10])


class _Pytesseract:
    """A `tesseract` process per list of pictures."""

    name = "pytesseract"

    def __init__(self) -> None:
        import pytesseract

        # with more threads, pictures of this size take 1.7 times as long; only pytesseract's children see this
        pytesseract.pytesseract.environ = {**os.environ, "OMP_THREAD_LIMIT": "1"}
        try:
            self.version = str(pytesseract.get_tesseract_version())
            languages = pytesseract.get_languages()
        except (OSError, RuntimeError, SystemExit) as error:
            message = "Tesseract is not installed: the program `tesseract` is not on the PATH or does not start"
            hint = "apt install tesseract-ocr, or brew install tesseract; or leave out --max-text"
            raise CtxrError(message, hint=hint) from error
        if LANGUAGE not in languages:
            raise CtxrError(f"Tesseract has no language file {LANGUAGE!r}", hint=NO_LANGUAGE)
        self._pytesseract: Any = pytesseract

    def read(self, pictures: Sequence[Picture]) -> Iterator[str]:
        if not pictures:
            return
        settings = {"lang": LANGUAGE, "config": f"--psm {SPARSE_TEXT}", "timeout": TIMEOUT}
        with TemporaryDirectory(prefix="ctxr-text-") as folder:
            listed = Path(folder) / "pictures.txt"
            files = [listed.with_name(f"{number}.pgm") for number in range(len(pictures))]
            listed.write_text("".join(f"{file}\n" for file in files), "utf-8")
            try:
                for file, grey in zip(files, pictures, strict=True):
                    height, width = grey.shape
                    file.write_bytes(f"P5 {width} {height} 255\n".encode() + grey.tobytes())
                table = str(self._pytesseract.image_to_data(str(listed), **settings))
            except (OSError, RuntimeError) as error:
                # pytesseract kills a late process, and raises a RuntimeError
                size = f"{pictures[0].shape[1]}x{pictures[0].shape[0]}"
                raise DataError(f"Tesseract could not read a picture of {size}: {error}") from error
        rows = table.split("\n")
        for page in range(1, len(pictures) + 1):
            yield "\n".join(row for row in rows if row.split("\t", 2)[1:2] == [str(page)])


class _Tesserocr:
    """Tesseract inside this process: no start, no file, no second load of the language."""

    name = "tesserocr"

    def __init__(self) -> None:
        try:
            import tesserocr
        except ImportError as error:
            hint = "pip install tesserocr, or use engine pytesseract"
            raise CtxrError("tesserocr is not installed", hint=hint) from error
        tesserocr.set_leptonica_log_level(tesserocr.LeptLogLevel.NONE)
        try:
            self._api = tesserocr.PyTessBaseAPI(path=_language_folder(), lang=LANGUAGE, psm=tesserocr.PSM.SPARSE_TEXT)
        except RuntimeError as error:
            raise CtxrError(f"tesserocr finds no language file {LANGUAGE!r}", hint=NO_LANGUAGE) from error
        self._api.SetVariable("debug_file", os.devnull)
        self.version = tesserocr.tesseract_version().split()[1]

    def read(self, pictures: Sequence[Picture]) -> Iterator[str]:
        for grey in pictures:
            height, width = grey.shape
            self._api.SetImageBytes(grey.tobytes(), width, height, 1, width)
            if not self._api.Recognize(int(TIMEOUT * 1000)):
                raise DataError(f"Tesseract could not read a picture of {width}x{height} within {TIMEOUT:.0f} s")
            yield str(self._api.GetTSVText(0))


def _language_folder() -> str:
    """Where language files are: TESSDATA_PREFIX, or what an installed `tesseract` says, or "" for the library's own choice."""
    prefix, program = os.environ.get("TESSDATA_PREFIX", ""), shutil.which("tesseract")
    if prefix or program is None:
        return prefix
    command = [program, "--list-langs"]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False).stdout
    folder = re.search(r'"(.+)"', listed)
    return folder[1] if folder else ""
