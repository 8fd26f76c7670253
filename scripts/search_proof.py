"""A simulated person who finds drawn pictures by three words and one stroke:
`python -m scripts.search_proof FOLDER [--tries 200] [--seed 2] [--by ctxr-tiny]`.

The person knows the picture that is meant, and types the colours of its three things, the most telling words of its description. While
the first is typed, they draw over that thing: the first stroke of the picture's narrative. A picture is found when it is among ten
results. By text alone the same model is asked again after every word, until the picture is found or the words end: the description from
its start, or first the three colours and then the three shapes. A space counts as a keystroke. A person who does not find the picture
with a stroke then types the whole description on top; by text alone a failure costs no more than its words.

The model is `traces-patches` over ctxr-tiny, trained on narratives of other drawn pictures; --by names another one. Words and settings
were chosen on other drawings too. The gallery holds 400 pictures, eight in a row with the same things in other places. Intervals of
95 % draw these rows again. 0 when at least 80 % are found and, by the intervals, three words and a stroke take fewer keystrokes than
the description, and so do words and a stroke than the same words alone, where both stop when the picture is found; 1 when not.
"""

import json
from argparse import ArgumentParser
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ctxr.cli.render import show_table
from ctxr.engine.progress import SILENT
from ctxr.engine.report import Table
from ctxr.engine.stage import execute
from ctxr.pipelines.finding.config import Search, SearchQuery
from ctxr.pipelines.finding.finder import Finder
from ctxr.pipelines.finding.index import IndexStage
from ctxr.pipelines.modelling import train
from ctxr.pipelines.modelling.config import Train
from ctxr.store.records import TimedWord
from ctxr.synthetic.narratives import write_narratives

RUN, SETTINGS = "typed", ("encoder=ctxr-tiny", "phrase=1", "epochs=10")
"""What is trained, with boxes of single words, as a query here has three."""

SAME, PICTURES, WITHIN, WORD, ENOUGH = 8, 400, 10, 0.6, 0.8
"""Pictures in a row with the same things; of the gallery; results that are looked at; seconds of a word; share to be found."""

AGAINST = (("three words, one stroke", "description"), ("up to three words, one stroke", "colours, then shapes"))
"""Ways whose keystrokes are compared: as people type, and the same words until the picture is found."""

Stroke = list[tuple[float, float, float]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw, train, index, search, print."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tries", type=int, default=200)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--by", default=RUN)
    options = parser.parse_args(arguments)
    learned, gallery, work = (options.folder / name for name in ("narratives", f"gallery-{options.seed}", "work"))
    write_narratives(gallery, {"test": PICTURES}, options.seed, same=SAME)
    if options.by == RUN:
        write_narratives(learned, {"train": 3200}, 1, same=32)
        write_narratives(learned, {"val": 400}, 1, same=SAME)
        train.run(Train("traces-patches", learned, RUN, 1, changes=SETTINGS, workdir=work))
    finder = finder_of(Search(gallery, model=options.by, name=f"{options.by}-{options.seed}", workdir=work))
    lines = (gallery / "drawn_test_localized_narratives.jsonl").read_text().splitlines()
    rng = np.random.default_rng(options.seed)
    meant = np.sort(rng.choice(len(lines), options.tries, replace=False))
    tries = [attempt(finder, json.loads(lines[row])) for row in meant]
    columns = {name: np.array([one[name] for one in tries], np.float64) for name in tries[0]}
    draws = redrawn(rng, meant // SAME)
    rows = [
        (
            name.removesuffix(" keys"),
            interval(columns[name.replace(" keys", " found")], draws, 100),
            interval(keys, draws),
        )
        for name, keys in columns.items()
        if name.endswith(" keys")
    ]
    show_table(
        Table(
            f"{options.tries} tries, {PICTURES} pictures",
            ("query", f"found within {WITHIN}, %", "keystrokes"),
            tuple(rows),
        )
    )
    good = columns["three words, one stroke found"].mean() >= ENOUGH
    for drawn, text in AGAINST:
        saved = columns[f"{drawn} keys"] - columns[f"{text} keys"]
        print(f"{drawn}, against {text}: {interval(saved, draws)} keystrokes")
        good &= bool(np.quantile((draws @ saved) / draws.sum(1), 0.975) < 0)
    return 0 if good else 1


def finder_of(config: Search) -> Finder:
    """An index of its gallery, made if it is not there, and opened."""
    stage = IndexStage(config)
    execute(stage, SILENT)
    inputs = stage.inputs(SILENT)
    return Finder(config, inputs.source, inputs.by, SILENT)


def attempt(finder: Finder, narrative: dict[str, Any]) -> dict[str, float]:
    """Keystrokes, and whether the picture was found, in each way."""
    description = narrative["caption"].split()
    things = [phrase.split()[1:] for phrase in narrative["caption"].split(" and ")]
    colours, shapes = zip(*things, strict=True)
    points = narrative["traces"][0]
    times = np.linspace(0.1 * WORD, 0.9 * WORD, len(points)).tolist()
    stroke = [
        (min(max(one["x"], 0), 1), min(max(one["y"], 0), 1), time) for one, time in zip(points, times, strict=True)
    ]

    def found(words: Sequence[str], drawn: Stroke) -> bool:
        timed = [TimedWord(word, WORD * place, WORD * (place + 1)) for place, word in enumerate(words)]
        results = finder.find(SearchQuery(timed, [drawn] if drawn else []), WITHIN).results
        return any(Path(one.file).stem == narrative["image_id"] for one in results)

    def typed(words: Sequence[str], drawn: Stroke) -> tuple[bool, int]:
        """Whether it was found, and after how many keystrokes the person stopped."""
        keys = [*accumulate(len(word) + 1 for word in words)]
        stops = (count for count in range(1, len(words) + 1) if found(words[:count], drawn))
        count = next(stops, 0)
        return count > 0, keys[count - 1] - 1

    whole, three = len(" ".join(description)), found(colours, stroke)
    first, until = typed(colours, stroke)
    facts: dict[str, float] = {
        "three words, one stroke found": three,
        "three words, one stroke keys": len(" ".join(colours)) + (0 if three else 1 + whole),
        "up to three words, one stroke found": first,
        "up to three words, one stroke keys": until + (0 if first else 1 + whole),
        "three words found": found(colours, []),
        "three words keys": len(" ".join(colours)),
    }
    for name, words in {"description": description, "colours, then shapes": [*colours, *shapes]}.items():
        facts[f"{name} found"], facts[f"{name} keys"] = typed(words, [])
    return facts


def redrawn(rng: np.random.Generator, rows: npt.NDArray[np.int64], draws: int = 2000) -> npt.NDArray[np.float64]:
    """How often each try counts when rows of alike pictures are drawn again, [draws, tries]."""
    _, own = np.unique(rows, return_inverse=True)
    count = own.max() + 1
    return rng.multinomial(count, np.full(count, 1 / count), draws)[:, own].astype(np.float64)


def interval(values: npt.NDArray[np.float64], draws: npt.NDArray[np.float64], scale: float = 1) -> str:
    """The mean, and its interval of 95 %."""
    low, high = np.quantile((draws @ values) / draws.sum(1), (0.025, 0.975)) * scale
    return f"{values.mean() * scale:.1f} [{low:.1f}, {high:.1f}]"


if __name__ == "__main__":
    raise SystemExit(main())
