"""`ctxr shortcuts`: shortcuts that find the target without reading the description; each must stay at chance."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import compress

import numpy as np

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.open import open_dataset
from ctxr.engine.progress import SILENT, Progress
from ctxr.errors import UsageError, plural
from ctxr.media.images import sharpness
from ctxr.metrics.positions import MOST_POSITIONS
from ctxr.metrics.shortcuts import (
    Trial,
    bags_of_words,
    blind_credits,
    blind_to_images,
    blind_to_texts,
    corrected,
    extreme_credits,
    judge_rule,
    learns_on_train,
    learnt_credits,
    position_credits,
)
from ctxr.metrics.votes import Doubles
from ctxr.models.dataset_vectors import picture_vectors_of
from ctxr.models.picture_vectors import open_pictures
from ctxr.pipelines.inspection.config import Shortcuts, ShortcutsReport
from ctxr.store.artifacts import MANIFEST, open_artifact
from ctxr.store.hashing import sha256_file
from ctxr.store.records import ImageSet
from ctxr.store.tables import grouped

Rule = tuple[str, Doubles]


SEVERAL_CHOICES = ("position by length", "texts alone, linear model")
"""Rules that may choose different images of one set for different descriptions."""


def rules(
    dataset: Dataset, trials: list[Trial], texts: Sequence[str], config: Shortcuts, progress: Progress
) -> Iterator[Rule | str]:
    """Each rule with its credits [Q], NaN where it does not apply, or the sentence that says why it cannot be tried.

    The images of a video set lie in one shot in the order of time, so its first image is the candidate nearest to the
    start of the shot and its last the one nearest to the end. Photos have no time: their first image is the anchor that
    the others were found by, and their last is like any other.
    """
    in_order = np.array([query.size <= MOST_POSITIONS for query in trials])
    if galleries := {query.image_set for query in trials if query.size > MOST_POSITIONS}:
        yield (
            f"first, last, anchor and commonest position in {plural(len(galleries), 'set')}: a gallery of more than "
            f"{MOST_POSITIONS} images has no order"
        )
    targets = grouped((query.image_set, query.target) for query in trials)
    if full := {query.image_set for query in trials if len({*targets[query.image_set]}) == query.size}:
        yield (
            f"rules that choose one image, in {plural(len(full), 'set')}: every image is a target there, so each of them is right "
            "on exactly one, whatever it looks at"
        )
    open_ = np.array([query.image_set not in full for query in trials])
    for name, kind, last in (
        ("first image of the set", "video", False),
        ("last image of the set", "video", True),
        ("anchor (first image)", "photos", False),
    ):
        here = open_ & in_order & np.array([query.kind == kind for query in trials])
        if here.any():
            yield name, np.where(here, position_credits(trials, last), np.nan)
    for name, by_length in (("commonest position", False), ("position by length", True)):
        credits = np.full(len(trials), np.nan)
        credits[in_order] = learnt_credits(list(compress(trials, in_order)), by_length)
        if not by_length:
            credits[~open_] = np.nan
        if (~np.isnan(credits)).any():
            yield name, credits
        elif in_order.any() and (by_length or open_.any()):
            yield f"{name}: there is no other set to learn from"
    credits = np.full(len(trials), np.nan)
    words = bags_of_words(list(compress(texts, in_order)))
    small = list(compress(trials, in_order))
    credits[in_order] = blind_credits(small, blind_to_images(small, words))
    if (~np.isnan(credits)).any():
        yield SEVERAL_CHOICES[1], credits
    if wanted := [image_set for image_set in dataset.sets if image_set.id in targets.keys() - full]:
        yield from _picture_rules(dataset, trials, wanted, config.skip_pictures, progress)
        yield from _blind_rule(dataset, trials, wanted, config, progress)


def _blind_rule(
    dataset: Dataset, trials: list[Trial], wanted: list[ImageSet], config: Shortcuts, progress: Progress
) -> Iterator[Rule | str]:
    """The choices of a linear model that is trained on vectors of images alone."""
    found = picture_vectors_of(dataset, config.encoder, config.device, progress)
    if found is None and dataset.root is not None and (dataset.root / MANIFEST).is_file():
        # the sets that were described hold the vectors
        made_from = {parent.sha256 for parent in open_artifact(dataset.root).manifest.parents}
        for manifest in sorted(dataset.root.resolve().parent.glob(f"*/{MANIFEST}")):
            if found is None and sha256_file(manifest) in made_from:
                found = picture_vectors_of(replace(dataset, root=manifest.parent), None, config.device, progress)
    vectors = {} if found is None else found.by_image
    whole = {one.id: one.images for one in wanted if vectors.keys() >= {*one.images}}
    by_set = {name: np.array([vectors[image] for image in images], np.float64) for name, images in whole.items()}
    rows = [row for row, query in enumerate(trials) if query.image_set in by_set]
    credits, own = np.full(len(trials), np.nan), [trials[row] for row in rows]
    credits[rows] = blind_credits(own, blind_to_texts(own, by_set))
    if np.isnan(credits).all():
        yield f"images alone: {'too few sets to learn from' if by_set else 'no vectors of pictures are here (--encoder NAME)'}"
    else:
        yield "images alone, linear model", credits


def _picture_rules(
    dataset: Dataset, trials: list[Trial], wanted: list[ImageSet], skip_pictures: bool, progress: Progress
) -> Iterator[Rule | str]:
    """Rules that choose the image with the least or largest value of a measure."""

    def extremes(
        least: str, most: str, what: str, values: Mapping[str, float | None], why: str
    ) -> Iterator[Rule | str]:
        # in sets that have them all
        numbers = {one.id: np.array([values.get(name) for name in one.images], np.float64) for one in wanted}
        by_set = {name: row for name, row in numbers.items() if not np.isnan(row).any()}
        if not by_set:
            yield f"{least} and {most} {what}: {why}"
            return
        for end, largest in ((least, False), (most, True)):
            yield f"{end} {what}", extreme_credits(trials, by_set, largest)
        if without := len(wanted) - len(by_set):
            left = plural(without, "set is", "sets are")
            yield f"{least} and {most} {what}: {left} left out (not every image has a value)"

    brisque = {name: facts.brisque for name, facts in dataset.facts.items()}
    why = "BRISQUE was not measured (run ctxr filter)"
    yield from extremes("least", "most", "distorted (BRISQUE)", brisque, why)
    if skip_pictures:
        yield "sharpness and file size: pictures were not opened"
        return
    sizes: dict[str, float] = {}
    files = {name: dataset.picture(dataset.images[name]) for image_set in wanted for name in image_set.images}
    for name, file in files.items():
        with suppress(OSError):
            if file is not None:
                sizes[name] = file.stat().st_size
    why = "no set has all its images"
    yield from extremes("smallest", "largest", "file", sizes, why)
    whole = {name for image_set in wanted if sizes.keys() >= set(image_set.images) for name in image_set.images}
    complete = {name: file for name, file in files.items() if file and name in whole}
    with closing(open_pictures(complete, "sharpness", progress)) as opened:
        sharpnesses = {name: sharpness(pixels) for name, pixels in opened}
    yield from extremes("blurriest", "sharpest", "image (Laplacian)", sharpnesses, why)


def run(config: Shortcuts, progress: Progress = SILENT) -> ShortcutsReport:
    """Every shortcut that the dataset allows, on all queries, and on video and photos apart."""
    dataset = open_dataset(config.dataset, config.workdir, progress).of_sets("ctxr shortcuts")
    targets = (row for row in dataset.judgments if row.value > 0 and dataset.queries[row.query].labels is None)
    workers = sorted({row.worker for row in targets})
    if workers and config.worker not in workers:
        hint = f"--worker {workers[0]}   (known: {', '.join(workers[:5])})"
        raise UsageError(f"no target is named by {config.worker!r}", hint=hint)
    trials, texts = [], list[str]()  # each query with its target, in the order of judgments
    for query, image_set, target in dataset.sole_targets(config.worker):
        if query.labels is None and len(image_set.images) > 1:
            texts.append(dataset.text_of(query))
            words = len(texts[-1].split())
            split = dataset.split_of(image_set)
            trials.append(Trial(image_set.id, image_set.kind, split, len(image_set.images), target, words))
    if not trials:
        return ShortcutsReport(dataset.name, 0, (), ("no target is known, so there is nothing to test",), dataset.notes)
    kinds = sorted({query.kind for query in trials}, reverse=True)
    parts = ("all", *kinds) if len(kinds) > 1 else ("all",)
    verdicts, missing = [], list[str]()
    for rule in rules(dataset, trials, texts, config, progress):
        if isinstance(rule, str):
            missing.append(rule)
            continue
        name, credits = rule
        tried = {query.kind for query, credit in zip(trials, credits.tolist(), strict=True) if not math.isnan(credit)}
        # a rule for videos alone would say the same twice, and be corrected for it twice
        for part in parts if len(tried) == len(kinds) else sorted(tried):
            rows = [row for row, query in enumerate(trials) if part in ("all", query.kind)]
            single = name not in SEVERAL_CHOICES
            verdict = judge_rule(name, part, [trials[row] for row in rows], credits[rows], single)
            if verdict is not None:
                verdicts.append(verdict)
    learnt = "learnt on train" if learns_on_train(trials) else "learnt on the sets before, in an order fixed by hash"
    found = tuple(corrected(verdicts))
    return ShortcutsReport(dataset.name, len(trials), found, tuple(missing), dataset.notes, learnt)
