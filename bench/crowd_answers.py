"""Answers of a simulated crowd to drawn questions, as an artifact of judgments; nothing is served."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import numpy as np
from PIL import Image as Pillow

from ctxr.annotation.artifacts import AggregatedAnswers
from ctxr.annotation.protocol import Protocol, shown_order, wanted
from ctxr.annotation.records import Answer, Unit
from ctxr.annotation.tasks import task_of
from ctxr.annotation.unit_factory import derive_units
from ctxr.store.hashing import sha256_of
from ctxr.store.records import Image, ImageSet, SplitName
from ctxr.synthetic.crowd import CAREFUL, HASTY, SPAMMER, pick_chances
from scripts.task_artifact import write_judgments

PEOPLE = {f"w{number:02d}": (CAREFUL, CAREFUL, CAREFUL, HASTY, HASTY, SPAMMER)[number % 6] for number in range(60)}
PROTOCOL = Protocol()


@dataclass
class Study:
    """What was asked and answered so far."""

    rng: np.random.Generator
    units: dict[str, Unit] = field(default_factory=dict)
    answers: list[Answer] = field(default_factory=list)

    def say(self, unit: Unit, worker: str, slot: int, values: dict[str, tuple[str, ...]]) -> Answer:
        """An answer a second."""
        self.units[unit.id] = unit
        order = shown_order(unit.images, unit.ordered, unit.id, slot, PROTOCOL.seed)
        at = np.datetime64("2026-01-01T00:00:00") + np.timedelta64(len(self.answers), "s")
        self.answers.append(Answer(unit.id, worker, values, order, slot, f"{at}Z", 20.0, "local"))
        return self.answers[-1]

    def find(self, unit: Unit, people: list[str]) -> None:
        """Votes on a description until it is decided, each by the next of `people`."""
        right = wrong = 0
        verdicts = {name: name in unit.truth for name in unit.images}
        while right + wrong < wanted(unit, right, wrong):
            worker = people.pop()
            spread = pick_chances(PEOPLE[worker], verdicts, unit.images)
            pick = str(self.rng.choice(list(spread), p=list(spread.values())))
            self.say(unit, worker, right + wrong, {"pick": (pick,)})
            right, wrong = right + verdicts[pick], wrong + (not verdicts[pick])

    def answered(self, root: Path, sets: dict[str, ImageSet], images: dict[str, Image]) -> AggregatedAnswers:
        """All of it, scored."""
        found = [task_of(self.units[one.unit]).score(self.units[one.unit], one) for one in self.answers]
        return AggregatedAnswers(
            root,
            self.units,
            sets,
            images,
            tuple(self.answers),
            texts=tuple(row for outcome in found for row in outcome.texts),
            queries=tuple({row.id: row for outcome in found for row in outcome.queries}.values()),
            judgments=tuple(row for outcome in found for row in outcome.judgments),
        )


def write_answers(folder: Path, count: int) -> int:
    """Write `count` answers or a few more into a new folder, and return how many.

    Three images of each set are described, each description is looked for as often as the published protocol wants, and all
    pictures are grey.
    """
    folder.mkdir(parents=True)
    grey = folder.parent / "grey.jpg"
    Pillow.new("RGB", (32, 32), "grey").save(grey)
    study, sets, images = Study(np.random.default_rng(0)), dict[str, ImageSet](), dict[str, Image]()
    splits = get_args(SplitName)
    while len(study.answers) < count:
        group = f"g{len(sets):05d}"
        names = tuple(f"{group}/{place}" for place in range(10))
        split = splits[len(sets) % len(splits)]
        sets[group] = ImageSet(group, "photos", names, group, group, None, 0.1, 0.2)
        # one file, hashes of their own: whoever met a picture does not judge it again
        images |= {name: Image(name, grey.name, sha256_of(name), group, 32, 32) for name in names}
        people = study.rng.permutation(list(PEOPLE)).tolist()  # nobody meets a set twice
        for target in study.rng.choice(names, PROTOCOL.targets, replace=False).tolist():
            asked = Unit(f"d-{target}", "describe", group, group, names, split=split, target=target)
            text = f"the thing that was seen as number {len(study.answers)} stands on the left"
            written = study.say(asked, people.pop(), 0, {"description": (text,)})
            for unit in derive_units(asked, written, sets[group], PROTOCOL):
                study.find(unit, people)
    write_judgments(folder, study.answered(folder.parent, sets, images))
    return len(study.answers)
