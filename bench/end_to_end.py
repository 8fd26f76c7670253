"""`build-sets` whole: against the decode floor and against the literal procedure."""

import itertools
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.footage import ffmpeg_null, ffmpeg_null_seconds, footage
from bench.table import Median, Row, in_turns, median_seconds
from ctxr.engine.report import SetsReport
from ctxr.media.opencv_video import open_video
from ctxr.models.encoders import Encoder, load_encoder
from ctxr.pipelines.curation.build_sets import run
from ctxr.pipelines.curation.config import BuildSets

LITERAL_FRAMES = 96
"""Frames on which the literal procedure is timed; it is the same for every frame."""

BATCH = 32


def build(out: Path, source: Path, encoder: str) -> tuple[SetsReport, float]:
    """A build and its seconds; with random weights the threshold is low, so that sets are saved all the same."""
    config = BuildSets(
        sources=(str(source),),
        out=out,
        encoder=encoder,
        threshold=0.004 if encoder.startswith("random") else None,
    )
    start = time.perf_counter()
    report = run(config)
    return report, time.perf_counter() - start


def best_rate(encoder: Encoder) -> float:
    """Images per second of the image tower at its best: pictures of its own size, one large request."""
    pictures = [np.full((encoder.image_size, encoder.image_size, 3), shade, np.uint8) for shade in range(64)]
    encoder.encode_images(pictures)
    return 64 / median_seconds(lambda: encoder.encode_images(pictures), 3)


def literal_seconds_per_frame(video: Path) -> float:
    """Decoding, Pillow preprocessing and fp32 embedding in batches of 32, every frame, one after the other."""
    import open_clip
    import torch
    from PIL import Image as Pillow

    model, _, preprocess = open_clip.create_model_and_transforms("ViT-B-32", pretrained=None)
    model.eval()
    start = time.perf_counter()
    with open_video(video) as opened, torch.inference_mode():
        pending = []
        for frame in opened:
            pending.append(preprocess(Pillow.fromarray(frame.rgb())))
            if len(pending) == BATCH:
                model.encode_image(torch.stack(pending))
                pending = []
            if frame.index + 1 == LITERAL_FRAMES:
                break
    return (time.perf_counter() - start) / LITERAL_FRAMES


def measure() -> list[Row]:
    """All figures of this file but memory, which `bench.growth` measures; takes a few minutes."""
    clip = footage(repeat=3)
    folder = Path(tempfile.mkdtemp(prefix="ctxr-bench-"))
    try:
        encoder = load_encoder("random:ViT-B-32")
        load = median_seconds(lambda: load_encoder("random:ViT-B-32"))  # imports are over, as in the builds below
        # the one long build stands between two rounds of what it is compared with
        before = ffmpeg_null_seconds(clip), best_rate(encoder), literal_seconds_per_frame(clip)
        report, whole = build(folder / "vit", clip, encoder="random:ViT-B-32")
        after = ffmpeg_null_seconds(clip), best_rate(encoder), literal_seconds_per_frame(clip)
        floor, rate, each = (Median(pair) for pair in zip(before, after, strict=True))
        frames, embedded = report.counts["frames"], report.counts["embedded"]
        wanted = Median(seconds + embedded / speed for seconds, speed in zip(floor.runs, rate.runs, strict=True))
        note = f"{frames} frames, {embedded} embedded at best {rate:.0f}/s ({encoder.precision}); model load left out"
        rows = [Row("build-sets, ViT-B/32", whole - load, "floor + embedding", wanted, "<= 1.15", None, note)]
        literal = each / (1 / frames)
        note = f"literal: every frame, fp32, Pillow, batches of {BATCH}; timed on {LITERAL_FRAMES} frames, scaled; "
        note += f"floor + embedding alone would be {wanted / literal:.3f} here"
        rows.append(Row("build-sets, ViT-B/32", whole - load, "literal procedure", literal, "<= 0.05", None, note))
        warm, beside = in_turns(
            lambda: build(folder / "vit", clip, encoder="random:ViT-B-32"), lambda: ffmpeg_null(clip)
        )
        rows.append(Row("build-sets again, nothing to do", warm, "decode floor", beside, "<= 0.05", None, "in process"))
        places = (folder / f"tiny{number}" for number in itertools.count())
        tiny, beside = in_turns(lambda: build(next(places), clip, encoder="ctxr-tiny"), lambda: ffmpeg_null(clip))
        rows.append(Row("build-sets, ctxr-tiny", tiny, "decode floor", beside))
        return [_judged(row) for row in rows]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _judged(row: Row) -> Row:
    if row.met is not None or not row.target.startswith("<= ") or row.ratio is None:
        return row
    return Row(**{**row.__dict__, "met": row.ratio <= float(row.target[3:])})
