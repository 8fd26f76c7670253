"""A retrieval benchmark out of the drawn world in which captions hold for many pictures, and it is known for which.

As on COCO each caption is written for one picture, and only that is annotated; the truth of every other pair is computed from what
the caption says and what the picture shows, and lies beside. Pictures come in families of near neighbours, captions say more or
less. A training set for entailment classifiers stands on pictures of its own.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ctxr.errors import UsageError
from ctxr.pipelines.inputs import refuse_seed
from ctxr.pipelines.talk import Silent, Talk

if TYPE_CHECKING:
    from ctxr.data.artifacts import Artifact

SAYINGS = ("Shows", "Before", "Counts", "Beside", "Within")
"""What captions are made of unless told otherwise (`ctxr.data.world.predicates`)."""


@dataclass(frozen=True)
class WorldCaptions:
    """What to draw.

    Attributes:
        out: artifact folder to write.
        train, valid, test: pictures of each gallery.
        pair_train, pair_valid: pictures on which pairs for entailment stand; they are in no other gallery.
        least, most: captions of a picture.
        hypotheses: pairs of a picture, half of them entailed where it can be.
        texts: pairs of texts alone that come from a picture's captions, half of them entailed.
        say: the predicates that captions may use.
        side: of the square pictures, pixels.
        seed: of everything; the same one draws the same bytes.
        workers: processes that draw; they change nothing.
    """

    out: Path
    train: int = 600
    valid: int = 100
    test: int = 200
    pair_train: int = 600
    pair_valid: int = 100
    least: int = 2
    most: int = 6
    hypotheses: int = 8
    texts: int = 4
    say: tuple[str, ...] = SAYINGS
    side: int = 96
    seed: int = 0
    workers: int = 2


def write_captions(config: WorldCaptions, talk: Talk | None = None) -> "Artifact":
    """Draw the benchmark, or leave it if it is there. Raises UsageError for numbers that make no sense.

    The artifact is of kind `dataset` with the galleries `train`, `valid`, `test`, `pair-train` and `pair-valid` as image sets, and
    two tables more: `truth.jsonl` (CaptionTruth) and `pairs.jsonl` (EntailmentPair).
    """
    from ctxr.data.artifacts import finish, finished, locked, refuse_strangers, take_manifest
    from ctxr.pipelines.world_caption_rows import TABLES, galleries_of, write_rows

    talk = talk or Silent()
    _check(config)
    decides = {name: value for name, value in asdict(config).items() if name not in ("out", "workers")}
    ready = finished(config.out, "dataset", "world-captions", decides, [])
    if ready is not None:
        return ready
    refuse_strangers(config.out)
    with locked(config.out):
        take_manifest(config.out)
        counts = write_rows(config, galleries_of(config), talk)
        return finish(
            config.out, kind="dataset", verb="world-captions", config=decides, parents=[], counts=counts, models={},
            files=[f"{name}.jsonl" for name in TABLES],
        )  # fmt: skip


def _check(config: WorldCaptions) -> None:
    from ctxr.data.world import predicates

    refuse_seed(config.seed)
    pictures = (config.train, config.valid, config.test, config.pair_train, config.pair_valid)
    if min(pictures) < 0 or not sum(pictures) or config.side < 16 or config.workers < 1:
        raise UsageError("a world of captions needs pictures, a side of 16 pixels or more, and a worker")
    if not 1 <= config.least <= config.most or config.hypotheses < 2 or config.texts < 0:
        raise UsageError(
            f"a picture has 1 caption or more, 2 hypotheses or more and 0 texts or more, not {config.least} to {config.most}, "
            f"{config.hypotheses} and {config.texts}"
        )
    odd = next((name for name in config.say if name not in predicates.__all__ or name[0].islower()), None)
    if odd is not None or "Shows" not in config.say:
        raise UsageError(
            f"captions cannot be made of {', '.join(config.say)}", hint=f"take some of {', '.join(SAYINGS)}"
        )
