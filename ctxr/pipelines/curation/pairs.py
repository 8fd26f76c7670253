"""`ctxr pairs`: pairs to train an entailment classifier on, from captions, descriptions that people checked, or published pairs.

An image with its other captions entails a held-out caption, and not one of another image of its split: of a few, every second time the
one that shares most words with the held-out caption. Nobody checks that these do not hold.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
from msgspec import structs

from ctxr.annotation.artifacts import read_judgments
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.open import origin_of, read_dataset
from ctxr.datasets.pairs import EntailmentPair, published_image
from ctxr.datasets.splits import SPLITS, assign_splits
from ctxr.datasets.truth import WORKER
from ctxr.engine.progress import Progress, Silent
from ctxr.engine.project import CHAIN, latest
from ctxr.engine.stage import Inputs, Stage, execute
from ctxr.errors import DataError, UnfinishedError, UsageError, plural
from ctxr.media.images import image_size
from ctxr.metrics.positions import MOST_POSITIONS
from ctxr.pipelines.curation.config import DocumentsReport, Pairs
from ctxr.problems.entailment.pairs import PAIRS, EntailmentPairs, open_pairs
from ctxr.store import kinds
from ctxr.store.artifacts import Content, Parent, open_artifact
from ctxr.store.atomic import link_or_copy
from ctxr.store.hashing import sha256_of
from ctxr.store.records import Image, SplitName
from ctxr.store.tables import write_tables
from ctxr.store.units import IMAGES

SHIPPED = Path(__file__).parent / "sample_pairs"
"""Pairs that ship with ctxr (`scripts/sample_pairs.py`)."""

_POOL = 16  # captions of other images among which one is chosen
_RULES = ("gold", "aggregate", WORKER)  # how workers are named that are no people
_REJECTED = 2  # people who chose other images, and nobody the right one


def captioned(dataset: Dataset, origin: Parent, accepted: Collection[str] | None = None) -> EntailmentPairs:
    """Pairs of the captions of a dataset, on its own splits. Raises DataError for a dataset without captions.

    Args:
        accepted: queries that people accepted; of the others, those that nobody found do not hold for their image. None for all.
    """
    sets = {image: image_set for image_set in dataset.sets for image in image_set.images}
    files = {image: file for image in sets if (file := dataset.picture(dataset.images[image])) and file.is_file()}
    texts = {query.id: " ".join(dataset.texts[text].text for text in query.texts) for query in dataset.queries.values()}
    targets = {query.id: image_set.images[place] for query, image_set, place in dataset.targets()}
    own: dict[str, list[str]] = defaultdict(list)
    for query, image in targets.items():
        own[image] += [query] if accepted is None or query in accepted else []
    rows = []
    for image, held_out, query, relation in _claims(dataset, texts, targets, own):
        premise = [texts[name] for name in own[image] if name != held_out and texts[name] != texts[query]]
        row, image_set = dataset.images[image], sets[image]
        # photos of a gallery are single ones, unless it says what belongs together
        single = len(image_set.images) > MOST_POSITIONS and row.group == image_set.group
        pair = EntailmentPair(
            f"{dataset.name}/{held_out}/{relation}", " ".join(premise) or None, texts[query], image if image in files else None,
            1 if relation == "entailment" else 0, relation, dataset.name, dataset.split_of(image_set),
            row.sha256 or image if single else row.group, query,
        )  # fmt: skip
        rows += [pair] if pair.kind != "none" else []
    if not rows:
        hint = "ctxr export-tasks describe   asks people for descriptions"
        raise DataError(f"{dataset.name} has no picture with a caption", hint=hint)
    contents = {name: dataset.images[name].sha256 for name in files}
    return EntailmentPairs(dataset.name, tuple(rows), files, contents, origin)


def _claims(
    dataset: Dataset, texts: Mapping[str, str], targets: Mapping[str, str], own: Mapping[str, list[str]]
) -> Iterator[tuple[str, str, str, str]]:
    """Image, caption that is no part of the premise, hypothesis, and relation; a person's wrong choice stands for a drawn caption."""
    picks = [row for row in dataset.judgments if row.value > 0]
    holds = {(row.query, row.candidate) for row in picks if row.worker.startswith(_RULES)}
    chosen: dict[str, list[str]] = defaultdict(list)
    for row in picks:
        chosen[row.query] += [] if row.worker.startswith(_RULES) else [row.candidate]
    sides = {image: dataset.split_of(image_set) for image_set in dataset.sets for image in image_set.images}
    among: dict[SplitName | None, list[str]] = defaultdict(list)
    for image, queries in own.items():
        among[sides[image]] += queries
    words, rng = {name: {*text.casefold().split()} for name, text in texts.items()}, np.random.default_rng(0)
    for number, (query, image) in enumerate(targets.items()):
        if query not in own[image]:
            if len(chosen[query]) >= _REJECTED and image not in chosen[query]:
                yield image, query, query, "rejected"
            continue
        yield image, query, query, "entailment"
        drawn = [among[sides[image]][place] for place in rng.integers(len(among[sides[image]]), size=_POOL)]
        same = [words[name] for name in own[image]]
        others = [name for name in drawn if words[name] not in same and (name, image) not in holds]
        others.sort(
            key=lambda name: -len(words[name] & words[query]) / len(words[name] | words[query]) if number % 2 else 0
        )
        if wrong := [other for other in chosen[query] if (query, other) not in holds]:
            yield wrong[0], query, query, "wrong_choice"
        elif others:
            yield image, query, others[0], "other"


def own_pairs(workdir: Path) -> EntailmentPairs:
    """Pairs of the descriptions that people accepted and rejected in a project. Raises UnfinishedError without any."""
    accepted = read_dataset(latest(workdir, ("dataset",))[0]).queries
    answered, artifact = read_judgments(workdir / kinds.JUDGMENTS), open_artifact(workdir / kinds.JUDGMENTS)
    written = Dataset(
        "own", answered.root, tuple(answered.sets.values()), dict(answered.images), {text.id: text for text in answered.texts},
        {query.id: query for query in answered.queries}, answered.judgments,
        {unit.group: unit.split for unit in answered.units.values() if unit.split is not None},
    )  # fmt: skip
    return captioned(written, Parent("judgments", kinds.JUDGMENTS, artifact.sha256), accepted)


def with_sides(pairs: EntailmentPairs, workdir: Path, progress: Progress) -> EntailmentPairs:
    """The pairs with each group on one side: that on which the project evaluates one of its pictures, test before valid before train.

    Groups without a side are dealt by hash, and those of train too where none is on valid.
    """
    evaluated: dict[str, SplitName | None] = {}
    with suppress(UnfinishedError):
        dataset = read_dataset(latest(workdir, CHAIN)[0])
        for image_set in dataset.sets:
            for image in image_set.images if dataset.split_of(image_set) in ("valid", "test") else ():
                marks = (dataset.images[image].sha256, published_image(image))
                evaluated |= {mark: dataset.split_of(image_set) for mark in marks if mark}
    sides: dict[str, set[SplitName]] = defaultdict(set)
    for pair in pairs.rows:
        sides[pair.group] |= {side for side in (pair.split, *map(evaluated.get, pairs.marks([pair]))) if side}
    fixed = {group: max(several, key=SPLITS.index) for group, several in sides.items() if several}
    if "valid" not in fixed.values():
        fixed = {group: side for group, side in fixed.items() if side != "train"}
    dealt = {row.group: row.split for row in assign_splits(dict.fromkeys(sides, True), fixed=fixed)}
    if moved := sum(pair.split not in (None, dealt[pair.group]) for pair in pairs.rows):
        progress.note(f"{plural(moved, 'pair')} moved to the side that evaluates their group, or to valid and test")
    return replace(pairs, rows=tuple(structs.replace(pair, split=dealt[pair.group]) for pair in pairs.rows))


def run(options: Pairs, progress: Progress | None = None) -> DocumentsReport:
    """Make pairs and report how many.

    Raises UsageError for wrong arguments, UnfinishedError without the project's descriptions, DataError for a source without pairs.
    """
    stage = _PairsStage(options)
    result = execute(stage, progress or Silent())
    assert result.artifact is not None  # noqa: S101  # a staged artifact is never incomplete
    return DocumentsReport(options.folder(), stage.read, result.up_to_date, dict(result.artifact.manifest.counts), [])


class _PairsStage(Stage):
    KIND = kinds.PAIRS
    STAGED = True
    options: Pairs

    def out(self) -> Path:
        return self.options.folder()

    def inputs(self, progress: Progress) -> Inputs:
        source, workdir = self.options.source, self.options.workdir
        path, pairs = SHIPPED if source == "sample" else Path(source), own_pairs(workdir) if source == "own" else None
        if source != "own" and path.name != PAIRS and not (path / PAIRS).is_file():
            with suppress(UsageError):  # what is no dataset may hold published pairs
                dataset = read_dataset(path)
                pairs = captioned(dataset, origin_of(dataset))
        pairs = with_sides(pairs or open_pairs(path, workdir, progress), workdir, progress)
        self.read = pairs.name
        return Inputs([pairs.origin], pairs, {"pairs": sha256_of([repr(pair) for pair in pairs.rows])})

    def write(self, inputs: Inputs, out: Path, progress: Progress) -> Content:
        pairs: EntailmentPairs = inputs.data
        groups = {pair.image: pair.group for pair in pairs.rows if pair.image is not None}
        images = []
        with progress.task("pictures", len(groups)) as task:
            for name, group in groups.items():
                file, sha256 = pairs.files[name], pairs.contents[name]
                path = f"{IMAGES}/{sha256}{file.suffix.lower()}"
                images.append(Image(name, path, sha256, group, *image_size(file)))
                link_or_copy(file, out / path)
                task.advance()
        write_tables(out, {"pairs": pairs.rows, "images": images})
        splits = Counter(pair.split for pair in pairs.rows)
        counts = {"pairs": len(pairs.rows), "entailed": sum(pair.label for pair in pairs.rows), "images": len(images)}
        files = {"pairs.jsonl", "images.jsonl"} | {image.path for image in images}
        return Content(sorted(files), counts | {"splits": {split: splits[split] for split in SPLITS}}, {})
