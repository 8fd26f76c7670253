"""`build-sets` whole: against the decode floor and against the literal procedure."""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.footage import ffmpeg_null_seconds, footage
from bench.table import Row, median_seconds
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


def peak_mib(video: Path, out: Path) -> float:
    """Largest resident size of a process of `ctxr build-sets` with ViT-B/32."""
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, capture_output=True);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)"
    )
    command = [sys.executable, "-m", "ctxr", "build-sets", str(video), "--out", str(out)]
    command += ["--encoder", "random:ViT-B-32", "--threshold", "0.004"]
    done = subprocess.run([sys.executable, "-c", code, *command], check=True, capture_output=True, text=True)
    return float(done.stdout)


def measure() -> list[Row]:
    """All figures of this file; takes a few minutes."""
    clip, short_clip = footage(repeat=3), footage()
    folder = Path(tempfile.mkdtemp(prefix="ctxr-bench-"))
    try:
        floor = ffmpeg_null_seconds(clip)
        load = median_seconds(lambda: load_encoder("random:ViT-B-32"), 1)
        encoder = load_encoder("random:ViT-B-32")
        rate = best_rate(encoder)
        report, whole = build(folder / "vit", clip, encoder="random:ViT-B-32")
        frames, embedded = report.counts["frames"], report.counts["embedded"]
        wanted = floor + embedded / rate
        note = f"{frames} frames, {embedded} embedded at best {rate:.0f}/s ({encoder.precision}); model load left out"
        rows = [Row("build-sets, ViT-B/32", whole - load, "floor + embedding", wanted, "<= 1.15", None, note)]
        literal = literal_seconds_per_frame(clip) * frames
        note = f"literal: every frame, fp32, Pillow, batches of {BATCH}; timed on {LITERAL_FRAMES} frames, scaled; "
        note += f"floor + embedding alone would be {wanted / literal:.3f} here"
        rows.append(Row("build-sets, ViT-B/32", whole - load, "literal procedure", literal, "<= 0.05", None, note))
        _, warm = build(folder / "vit", clip, encoder="random:ViT-B-32")
        rows.append(Row("build-sets again, nothing to do", warm, "decode floor", floor, "<= 0.05", None, "in process"))
        _, tiny = build(folder / "tiny", clip, encoder="ctxr-tiny")
        rows.append(Row("build-sets, ctxr-tiny", tiny, "decode floor", floor))
        short, long = (peak_mib(video, folder / video.stem) for video in (short_clip, clip))
        note = (
            f"peak of one process: {short:.0f} MiB, {long:.0f} MiB for three times the length; target < 1,536, constant"
        )
        rows.append(
            Row("memory of build-sets, ViT-B/32", 0.0, note=note, target="< 1.5 GiB", met=max(short, long) < 1536)
        )
        return [_judged(row) for row in rows]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _judged(row: Row) -> Row:
    if row.met is not None or not row.target.startswith("<= ") or row.ratio is None:
        return row
    return Row(**{**row.__dict__, "met": row.ratio <= float(row.target[3:])})
