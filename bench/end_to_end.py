"""`build-sets` whole, with `--frames auto`: against ffmpeg to null, the floor of decoding and embedding, and the literal procedure."""

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from bench.embedding import IMAGES, towers
from bench.footage import ffmpeg_null, footage, opening
from bench.table import Median, Row, in_turns, median_seconds
from ctxr.engine.report import SetsReport
from ctxr.media.opencv_video import open_video
from ctxr.models.encoders import load_encoder
from ctxr.pipelines.curation.build_sets import run
from ctxr.pipelines.curation.config import BuildSets

VIT = "random:ViT-B-32"
SECONDS = 10
"""Of the clip that the slow encoders get."""

LITERAL_FRAMES = 96
"""Frames on which the literal procedure is timed; it is the same for every frame."""

BATCH = 32
ROUNDS = 2
NULL = "ffmpeg to null"


def build(out: Path, source: Path, encoder: str) -> SetsReport:
    """A build. Random weights put pictures close together: at the paper's threshold no set would be complete, and bf16, which errs by
    more than they are apart, would have nearly all decided again."""
    random: dict[str, Any] = {"threshold": 0.004, "precision": "fp32"} if encoder == VIT else {}
    return run(BuildSets(sources=(str(source),), out=out, encoder=encoder, **random))


def literal() -> Callable[[Path], None]:
    """Decoding, Pillow preprocessing and fp32 embedding in batches of 32, one after the other, of `LITERAL_FRAMES` frames of a video."""
    import open_clip
    import torch
    from PIL import Image as Pillow

    model, _, preprocess = open_clip.create_model_and_transforms("ViT-B-32", pretrained=None)
    model.eval()

    def embed(video: Path) -> None:
        with open_video(video) as opened, torch.inference_mode():
            pending = []
            for frame in itertools.islice(opened, LITERAL_FRAMES):
                pending.append(preprocess(Pillow.fromarray(frame.rgb())))
                if len(pending) == BATCH:
                    model.encode_image(torch.stack(pending))
                    pending = []

    return embed


def measure() -> list[Row]:
    """All figures of this file but memory, which `bench.memory` measures; takes about three minutes."""
    folder = Path(tempfile.mkdtemp(prefix="ctxr-bench-"))
    try:
        return [_judged(row) for row in (*_built_in(folder), *_large(folder))]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _built_in(folder: Path) -> Iterator[Row]:
    """The encoders of the package, and a second run."""
    note = "in process, imports over, model load included"
    for encoder, clip, target in (("ctxr-tiny", footage(2), "<= 2.5"), ("ctxr-lite", opening(SECONDS), "")):
        load_encoder(encoder)
        builds = [partial(build, folder / f"{encoder}{number}", clip, encoder) for number in range(ROUNDS)]
        turns = iter(builds)
        whole, floor = in_turns(lambda: next(turns)(), partial(ffmpeg_null, clip), repeat=ROUNDS)  # noqa: B023
        yield Row(f"build-sets, {encoder}", whole, NULL, floor, target, None, note)
        if target:
            again, floor = in_turns(builds[0], partial(ffmpeg_null, clip))
            yield Row("build-sets again, nothing to do", again, NULL, floor, "<= 0.05", None, "in process")


def _large(folder: Path) -> Iterator[Row]:
    """ViT-B/32, beside what its embeddings cost at best."""
    clip, places = opening(SECONDS), (folder / f"vit{number}" for number in itertools.count())
    own, eager, weights = towers("fp32")
    embed_literally, reports = literal(), list[SetsReport]()
    load = median_seconds(lambda: load_encoder(VIT, precision="fp32"))  # imports are over, as in the builds below
    builds = [lambda: reports.append(build(next(places), clip, VIT)), lambda: ffmpeg_null(clip)]
    whole, null, ours, theirs, part = in_turns(*builds, own, eager, lambda: embed_literally(clip), repeat=ROUNDS)
    frames, embedded = reports[0].counts["frames"], reports[0].counts["embedded"]
    least = [min(pair) for pair in zip(ours.runs, theirs.runs, strict=True)]
    rounds = zip(null.runs, least, strict=True)
    floor = Median((decoding + embedded * each / IMAGES for decoding, each in rounds), whole.turns)
    inner, scaled = Median((run - load for run in whole.runs), whole.turns), part / (LITERAL_FRAMES / frames)
    figure, faster = "build-sets, ViT-B/32", "open_clip's eager loop" if theirs < ours else f"our encoder ({weights})"
    yield Row(
        figure, whole, NULL, null, "", None, "random weights, fp32; in process, imports over, model load included"
    )
    note = f"{embedded} of {frames} frames embedded, at best by {faster}; model load left out"
    yield Row(figure, inner, "ffmpeg to null + embedding at best, open_clip's or ours", floor, "<= 1.15", None, note)
    note = f"every frame, fp32, Pillow, batches of {BATCH}; timed on {LITERAL_FRAMES} frames, scaled"
    yield Row(
        figure, inner, "literal procedure", scaled, "<= 0.05", None, f"{note}; the floor alone is {floor / scaled:.3f}"
    )


def _judged(row: Row) -> Row:
    return row if row.ratio is None or not row.target else replace(row, met=row.ratio <= float(row.target[3:]))
