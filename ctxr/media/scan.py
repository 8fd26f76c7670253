"""Options of a scan: sampling, shots, the gate against stills, the decoder and its limits."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from ctxr.engine.options import Choices, NotDecisive, Options, Range

THRESHOLDS: dict[str, float] = {
    # Ratio of a frame's content score to the mean of its neighbours'. PySceneDetect's own sweep prefers 3.5, which misses a cut into
    # fast motion with a score of 3.1; its default of 3.0 finds it and adds none on our clips.
    "adaptive": 3.0,
    "content": 31.0,  # mean HSV difference of neighbouring frames, 0..255; PySceneDetect's sweep
    "threshold": 12.0,  # mean intensity 0..255 below which a picture counts as black
    "histogram": 0.20,  # 1 - correlation of luma histograms
    "hash": 0.35,  # share of perceptual hash bits that differ
    # Scene score 0..1. Hard cuts of our clips score .25 to .75 and nothing else above .12; the manual's 0.3 to 0.5 misses two of ten.
    "ffmpeg": 0.2,
}
"""Default thresholds by shot detector; higher finds fewer cuts, but more fades with "threshold"."""

_LARGEST: dict[str, float] = {"histogram": 1.0, "hash": 1.0, "ffmpeg": 1.0}

# options that do not change the result of a scan; the memory limit bounds how many frames are held, and does
SCAN_LIMITS = frozenset({"threads", "stall_seconds", "time_limit"})


@dataclass(frozen=True, kw_only=True)
class ScanOptions(Options):
    """Options of whatever scans videos."""

    PANELS = (
        "Video: keep_damaged frames rate still_below detector min_shot; "
        "Expert: detector_threshold decoder threads stall_seconds time_limit memory_limit"
    )

    frames: Annotated[str, NotDecisive, Choices(("auto", "every", "search", "samples"))] = "auto"
    """Which frames are embedded. every: all, as in the paper. samples: some per second. search: samples, and the frames between them
    that sets need. auto: every with a small encoder such as ctxr-tiny or on a GPU, where it costs little, and search otherwise."""
    rate: Annotated[float, Range(0.001, 1000, "frames per second, 0.001 to 1000")] = 4.0
    """Samples per second of video, beside the ends of shots; larger finds more sets and takes longer. No effect on every."""
    still_below: Annotated[float, Range(0, 255, "a luma difference: 0..255")] = 6.0
    """Skip a sample as nearly static if no block, a 144th of the picture, differs by this much from the last embedded sample (mean luma,
    0..255); 0 skips none. With --frames every no frame is skipped."""
    detector: Annotated[str, Choices(tuple(THRESHOLDS))] = "adaptive"
    """Shot detector: adaptive, content, threshold, histogram, hash (PySceneDetect's), or ffmpeg's scene filter as in
    the paper."""
    detector_threshold: float | None = None
    """The detector's own threshold; smaller cuts more. Default: the detector's."""
    min_shot: Annotated[float, Range(0, 3600, "seconds, 0 to 3600")] = 0.6
    """Minimum length of a shot in seconds."""
    decoder: Annotated[str, Choices(("auto", "pyav", "opencv"))] = "auto"
    """Video decoder: auto (PyAV, OpenCV as second attempt), pyav, opencv."""
    threads: Annotated[int, NotDecisive, Range(1, 256, "at least 1")] = 2
    """Decoding threads per video; PyAV adds one unless this is 1. With --keep-damaged always 1."""
    keep_damaged: bool = False
    """Use the decodable part of a damaged video instead of skipping the video."""
    stall_seconds: Annotated[float, Range(0.1, 10**6, "seconds, at least 0.1")] = 60.0
    """Give up on a video after this many seconds without a frame."""
    time_limit: Annotated[float, Range(0, 10**7, "seconds; 0 = none")] = 0.0
    """Give up on a video after this many seconds; 0 = never."""
    memory_limit: Annotated[float, Range(0.25, 10**4, "GiB, at least 0.25")] = 4.0
    """Memory limit for decoding one video, in GiB; a small one keeps fewer frames for the search between samples. A decoder takes
    0.6 GiB at 1280 x 720."""

    def rules(self) -> Iterator[tuple[str, str]]:
        """A threshold out of its detector's range, and a detector that is not installed."""
        yield from super().rules()
        limit, largest = self.detector_threshold, _LARGEST.get(self.detector, 255.0)
        if limit is not None and not 0 < limit <= largest:
            sentence = f"--detector-threshold of {self.detector} must be above 0 and at most {largest:g}, not {limit:g}"
            yield sentence, f"its default is {THRESHOLDS[self.detector]:g}"
        if self.detector == "ffmpeg" and shutil.which("ffmpeg") is None:
            sentence = "shot detector ffmpeg needs the ffmpeg program, which is not on the PATH"
            yield sentence, "install ffmpeg, or take adaptive"
