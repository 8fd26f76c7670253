"""An audit rehearsed: people who know the drawn world's truth judge the sample of a round at the pages of `ctxr serve`."""

from pathlib import Path
from typing import TYPE_CHECKING

from ctxr.pipelines.talk import Talk

if TYPE_CHECKING:
    from ctxr.data.world.kinds import Verdict

PEOPLE = 3
"""Who come: each pair is judged by as many."""

WRONG = 0.05
"""Share of answers in which each of them errs."""


def rehearse_audit(workdir: Path, drawn: Path, seed: int, talk: Talk, wrong: float = WRONG) -> int:
    """Let people judge all exported pairs of a project over HTTP; returns how many answers they gave.

    Args:
        drawn: dataset of `world_captions`, whose truth they know.

    Raises CtxrError when the server cannot be started.
    """
    import numpy as np

    from ctxr.annotation.simulation.judges import SimulatedJudge
    from ctxr.annotation.simulation.visitor import known_pictures, work_in_turns
    from ctxr.data.readers import read_dataset
    from ctxr.pipelines.rehearsal import served

    pictures, truth = known_pictures(read_dataset(drawn)), truth_of(drawn)
    with served(workdir, PEOPLE) as opened:
        people = [
            SimulatedJudge(name, link, pictures, truth, wrong, np.random.default_rng((seed, place)))
            for place, (name, link) in enumerate(opened["links"].items())
        ]
        with talk.progress("answers", PEOPLE * opened["waiting"].get("entail", 0)) as task:
            answers = work_in_turns(people, task.advance)
        for person in people:
            person.leave()
    return answers


def truth_of(drawn: Path) -> "dict[tuple[str, str], Verdict]":
    """Of each picture and caption of a drawn dataset, by (image id, text), whether the caption holds."""
    from ctxr.data.caption_truth import CaptionTruth
    from ctxr.data.records import Text
    from ctxr.data.tables import read_table

    texts = {row.id: " ".join(row.text.split()) for row in read_table(drawn / "texts.jsonl", Text)}
    rows = read_table(drawn / "truth.jsonl", CaptionTruth)
    images: dict[str, list[str]] = {}
    for row in rows:
        images.setdefault(row.gallery, []).append(row.image)
    found: dict[tuple[str, str], Verdict] = {}
    for row in rows:
        found |= {(image, texts[row.caption]): False for image in dict.fromkeys(images[row.gallery])}
    for row in rows:
        found |= {(image, texts[row.caption]): None for image in row.doubtful}
        found |= {(image, texts[row.caption]): True for image in row.holds}
    return found
