"""Draw documents of the drawn world in every construction: `python -m scripts.world_documents OUT [--train N --valid N --test N --seed N]`.

OUT/captions and OUT/stories are the drawn datasets; OUT/coco, story-dii, dii-stress, story-sis and recipe are made of them. A picture is
in several documents of its split.
"""

import sys
import time
from argparse import ArgumentParser
from pathlib import Path

from ctxr.datasets.constructors import CONSTRUCTIONS
from ctxr.errors import CtxrError
from ctxr.pipelines.curation.build_documents import run
from ctxr.pipelines.curation.config import BuildDocuments
from ctxr.synthetic.benchmark import WorldBenchmark, write_benchmark
from ctxr.synthetic.captions import WorldCaptions, write_captions

LEAST = 64
"""Pictures of a split, at least."""


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
            album = {"smallest_family": 6, "largest_family": 8, "edits": 6, "least": 3, "most": 3}
            counts = {"pair_train": 0, "pair_valid": 0, **drawn}
            write_captions(WorldCaptions(options.out / "captions", **counts, **album, **shared))  # type: ignore[arg-type]
        if True in sources:  # scenes of a shot, most of them told from the other nine by their description
            story = {"targets": 9, "all_splits": True, "video": 1.0}
            write_benchmark(WorldBenchmark(options.out / "stories", **drawn, **story, **shared))  # type: ignore[arg-type]
        for kind in options.kinds:
            source = "stories" if CONSTRUCTIONS[kind][0] == "video" else "captions"
            start = time.monotonic()
            report = run(BuildDocuments(kind, options.out / source, options.out / kind, **splits, seed=options.seed))
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
