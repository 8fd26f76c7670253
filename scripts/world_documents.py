"""Draw documents of the drawn world in every construction: `python -m scripts.world_documents OUT [--train N --valid N --test N --seed N]`.

OUT/captions and OUT/stories are the drawn datasets; OUT/coco, story-dii, dii-stress, story-sis and recipe are made of them. A picture is
in several documents of its split. The pictures of an album and of a story differ by several things, as those of an outing do; moments of
one shot would be as alike as the sets of ImageCoDe are meant to be.
"""

import sys
import time
from argparse import ArgumentParser
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from ctxr.datasets.splits import SPLITS
from ctxr.engine.progress import Progress
from ctxr.engine.stage import Inputs, execute
from ctxr.errors import CtxrError
from ctxr.models.encoders import load_encoder
from ctxr.pipelines.curation.config import BuildDocuments
from ctxr.pipelines.curation.documents import CONSTRUCTIONS, run
from ctxr.store.artifacts import Content
from ctxr.store.records import Record, SplitName
from ctxr.store.tables import write_tables
from ctxr.synthetic.benchmark import (
    TABLES,
    BenchmarkSet,
    SyntheticDataset,
    WorldBenchmark,
    add_set,
    draw_picture,
    draws,
)
from ctxr.synthetic.captions import WorldCaptions, write_captions
from ctxr.synthetic.world.scenes import sample_scene
from ctxr.synthetic.world.sets import SIZE, neighbour, neighbours
from ctxr.synthetic.world.statements import contextual_description

LEAST = 64
"""Pictures of a split, at least."""

EDITS = 6
"""Changes of each picture of an album or story beside the one or two of near neighbours."""


def draw_story(config: WorldBenchmark, split: SplitName, number: int) -> BenchmarkSet:
    """Story `number` of a split: ten scenes in an order, each described in the light of the others where that can be done."""
    rng = np.random.default_rng((config.seed, SPLITS.index(split), number))
    base = sample_scene(rng)
    scenes = [base, *neighbours(rng, base, SIZE - 1)]
    for _ in range(EDITS):
        scenes = [neighbour(rng, scene) for scene in scenes]
    said = ((place, contextual_description(scenes, place, rng, True)) for place in rng.permutation(SIZE).tolist())
    descriptions = tuple((place, one.text, one.tags) for place, one in said if one is not None)
    return BenchmarkSet(
        f"{split}-story{number:05d}", "video", tuple(draw_picture(scene, config.side) for scene in scenes), descriptions
    )


class Stories(SyntheticDataset):
    """Sets of ten pictures in an order; counts are of descriptions."""

    def write(self, inputs: Inputs, out: Path, progress: Progress) -> Content:
        """Draw them, as `write_benchmark` draws its sets."""
        config: WorldBenchmark = replace(self.options, out=out)
        encoder, rows = load_encoder("ctxr-tiny"), {name: list[Record]() for name in TABLES}
        wanted = {split: getattr(config, split) for split in SPLITS if getattr(config, split)}
        stories = draws(partial(draw_story, config), wanted, lambda story: len(story.descriptions), config.workers)
        for split, story, kept in stories:
            add_set(rows, config, split, replace(story, descriptions=story.descriptions[:kept]), encoder)
        counts = write_tables(out, rows)
        return Content([f"{name}.jsonl" for name in counts], counts, {"encoder": encoder.describe()})


def main(arguments: list[str]) -> int:
    """Draw, build, and print how many documents there are."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    for name, number in (("train", 2000), ("valid", 300), ("test", 300)):
        parser.add_argument(f"--{name}", type=int, default=number, help="documents of each construction")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", default=[*CONSTRUCTIONS], choices=[*CONSTRUCTIONS])
    parser.add_argument("--workers", type=int, default=2, help="processes that draw")
    options = parser.parse_args(arguments)
    splits = {name: getattr(options, name) for name in ("train", "valid", "test")}
    drawn = {name: max(LEAST, number) if number else 0 for name, number in splits.items()}
    shared = {"seed": options.seed, "workers": options.workers}
    sources = {CONSTRUCTIONS[kind][0] == "video" for kind in options.kinds}
    try:
        if False in sources:  # albums of pictures that have much in common, with captions that say one to three things
            album = {"smallest_family": 6, "largest_family": 8, "edits": EDITS, "least": 3, "most": 3}
            counts = {"pair_train": 0, "pair_valid": 0, **drawn}
            write_captions(WorldCaptions(options.out / "captions", **counts, **album, **shared))  # type: ignore[arg-type]
        if True in sources:
            execute(Stories(WorldBenchmark(options.out / "stories", **drawn, **shared)))
        for kind in options.kinds:
            source = "stories" if CONSTRUCTIONS[kind][0] == "video" else "captions"
            start = time.monotonic()
            out = options.out / kind
            report = run(BuildDocuments(kind, options.out / source, out=out, seed=options.seed, **splits))
            counts = report.counts
            print(
                f"{report.artifact}: {counts['splits']}, {counts['sentences']} sentences, {counts['images']} pictures, "
                f"{counts['links']} links, {time.monotonic() - start:.1f} s {' '.join(report.notes)}".rstrip(),
                flush=True,
            )
    except CtxrError as error:
        print(f"{error.message}; {error.hint}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
