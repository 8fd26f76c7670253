"""`ctxr train`: a recipe and a dataset become a run: trained scorers, their history, and their scores."""

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ctxr.datasets.changes import parent_of
from ctxr.datasets.dataset import Dataset
from ctxr.datasets.lineage import foreign_notes, remember_dataset
from ctxr.datasets.open import open_dataset
from ctxr.engine.progress import Progress, Silent
from ctxr.engine.project import refuse_nothing
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.models.context import PLACES
from ctxr.models.cross.sources import CrossSource
from ctxr.models.entailment.recipe import ClassifierRecipe
from ctxr.models.families import find_encoder
from ctxr.models.precision import choose_device
from ctxr.models.recipes import list_recipes, load_recipe
from ctxr.models.training.checkpoint import check_head, fingerprint_of, width_of
from ctxr.models.training.events import find_writer
from ctxr.models.training.recipe import IN_BATCH, Recipe
from ctxr.pipelines.modelling.config import Train, TrainReport
from ctxr.pipelines.modelling.entailment_training import train_classifier
from ctxr.pipelines.modelling.seed import ScorerJob, train_run
from ctxr.problems.embeddings import PictureFiles
from ctxr.problems.gallery.splits import GallerySplit, splits_for
from ctxr.problems.pair_inputs import regions_for
from ctxr.problems.queries import (
    EvalQuery,
    asked_of,
    by_split,
    check_positions,
    contents_of,
    pictures_of,
    sha256_of_queries,
)
from ctxr.problems.weak_positives import with_weak_positives
from ctxr.store.artifacts import MANIFEST, Parent, open_artifact
from ctxr.store.hashing import sha256_of
from ctxr.store.kinds import REGION_FEATURES, RUN


def train(config: Train, recipe: Recipe, progress: Progress) -> TrainReport:
    """The run of a configuration, finished. Raises what `pipelines.train.run` says."""
    if config.tensorboard:
        find_writer()  # hours before it is wanted
    refuse_nothing(config.dataset)
    device = choose_device(config.device)
    source = find_encoder(recipe.encoder, progress.warn)
    recipe = replace(recipe, encoder=source.name)
    check_head(recipe, width_of(source), device)
    regions = regions_for(source, recipe.regions, config.workdir) if isinstance(source, CrossSource) else None
    start = _start(config, recipe)
    dataset = open_dataset(config.dataset, config.workdir, progress)
    galleries = splits_for(dataset, recipe, config.judgments) if recipe.variant == IN_BATCH else {}
    sides = {} if galleries else _sides(dataset, recipe)
    if sides and recipe.weak != "off":
        sides["train"] = with_weak_positives(sides["train"], dataset, recipe, config.judgments, progress)
    everything = [one for side in sides.values() for one in side] + [one.asked() for one in galleries.values()]
    if recipe.variant == "temporal":
        check_positions(everything, PLACES, recipe.all_positions)
    files = pictures_of(dataset, everything)
    contents = contents_of(dataset, files)
    parents = [_asked_parent(dataset, everything, contents, galleries)]
    if start is not None:
        origin = open_artifact(start, RUN)
        parents.append(Parent(start.name, RUN, origin.sha256))
        for note in foreign_notes(origin, dataset):
            progress.warn(note)
    if regions is not None:
        parents.append(Parent(recipe.regions, REGION_FEATURES, regions.sha256))
    if recipe.rerank:
        parents.append(Parent(recipe.rerank_by, "model", fingerprint_of(find_encoder(recipe.rerank_by, progress.warn))))
    if recipe.weak != "off":
        weak = galleries["train"].weak if galleries else [(one.query, one.weak) for one in sides["train"] if one.weak]
        parents.append(Parent("weak positives", "judgments", sha256_of(weak)))
    pictures, seeds = PictureFiles(files, contents, config.workdir, regions), config.seeds if recipe.learns else 1
    job = ScorerJob(
        recipe, seeds, config.folder(), dataset.name, sides, pictures, fingerprint_of(source), start, tuple(parents), device,
        progress, config.tensorboard, galleries,
    )  # fmt: skip
    return train_run(job)


def _asked_parent(
    dataset: Dataset, asked: list[EvalQuery], contents: dict[str, str], galleries: Mapping[str, GallerySplit]
) -> Parent:
    """The dataset, known by what is asked of it."""
    sha256 = sha256_of_queries(asked, contents)
    return parent_of(dataset, sha256_of([sha256, *(one.sha256 for one in galleries.values())]) if galleries else sha256)


def _start(config: Train, recipe: Recipe) -> Path | None:
    """The run that a recipe starts from; None for the encoder as it was published."""
    if not recipe.start:
        return None
    folder = config.workdir / "runs" / recipe.start
    if folder.resolve() == config.folder().resolve():
        raise UsageError(
            f"the run {folder.name} cannot start from itself: it would be written over", hint="give it another --name"
        )
    if not (folder / MANIFEST).is_file():
        raise UnfinishedError(
            f"the recipe starts from the run {recipe.start!r}, and {folder} is not there or not finished",
            hint=f"{_making_start(config, recipe)}   first, or --set start= for the encoder as it was published",
        )
    return folder


def _making_start(config: Train, recipe: Recipe) -> str:
    """The command that makes a run which the recipe can start from: of its name, its encoder, and the same dataset."""
    known = list_recipes()
    starts = (
        recipe.start,
        load_recipe(config.recipe, config.parity).start,
    )  # a run may be called otherwise than its recipe
    made = next((one for one in starts if one in known), "")
    words = ["ctxr", "train", "--recipe", made or "RECIPE"]
    words += [] if made == recipe.start else ["--name", recipe.start]
    words += [] if config.dataset is None else ["--dataset", str(config.dataset)]
    if not made or load_recipe(made, config.parity).encoder != recipe.encoder:
        words += ["--set", f"encoder={recipe.encoder}"]
    words += [] if config.workdir == Train.workdir else ["--workdir", str(config.workdir)]
    return shlex.join(words)


def _sides(dataset: Dataset, recipe: Recipe) -> dict[str, list[EvalQuery]]:
    """The queries of each side that the recipe has to do with; those for training all have targets."""
    sides = by_split(asked_of(dataset))
    train = [one for one in sides.get("train", []) if one.target is not None]
    if recipe.learns and not train:
        raise DataError(
            f"{dataset.name} has no query with a known target on the train side, so there is nothing to learn from",
            hint="name another --dataset; the recipe clip-zero-shot needs no training",
        )
    if recipe.learns and recipe.leaked_gradients and len(train) < recipe.batch:
        raise UsageError(
            f"with leaked_gradients a step of fewer than batch = {recipe.batch} queries is never taken, and {dataset.name} "
            f"has {len(train)} to train on: nothing would be learned",
            hint=f"--set batch={len(train)}, or --set leaked_gradients=false",
        )
    judged = {side: sides[side] for side in ("valid", "test") if side in sides}
    if not judged and not recipe.learns:
        raise DataError(
            f"{dataset.name} has no query on the valid or test side to score", hint="name another --dataset"
        )
    return ({"train": train} if recipe.learns else {}) | judged


def run(config: Train, progress: Progress | None = None) -> TrainReport:
    """Train, or go on where it was stopped, and say what came out.

    Raises UsageError for wrong arguments, DataError for a dataset that cannot be trained on or a checkpoint of another encoder,
    UnfinishedError without a finished dataset, CtxrError when the loss is no number any more.
    """
    config.check()
    recipe = load_recipe(config.recipe, config.parity, config.changes)
    if isinstance(recipe, ClassifierRecipe):
        if config.text_only or config.image_only:
            recipe = replace(recipe, image="") if config.text_only else replace(recipe, text="")
            recipe.check()
        return _remembered(config, train_classifier(config, recipe, progress or Silent()))
    if config.text_only or config.image_only:
        raise UsageError("--text-only and --image-only are about classifiers", hint="--recipe entailment")
    if config.judgments is not None and recipe.weak == "off":
        raise UsageError(
            "--judgments says what is entailed, and the recipe has weak = off", hint="--set weak=extra-batch"
        )
    return _remembered(config, train(config, recipe, progress or Silent()))


def _remembered(config: Train, report: TrainReport) -> TrainReport:
    """The report; where the dataset lies is noted for `ctxr eval`."""
    remember_dataset(report.folder, config.dataset)
    return report
