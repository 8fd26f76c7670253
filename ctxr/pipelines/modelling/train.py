"""`ctxr train`: a recipe and a dataset become a run: models, their history and scores."""

import shutil
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from pkgutil import resolve_name
from statistics import mean
from typing import TYPE_CHECKING, Any

from ctxr.datasets.lineage import dataset_parents, remember_dataset
from ctxr.datasets.rounds import ROUNDS
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.stage import Inputs, Stage, execute
from ctxr.engine.units import this_process
from ctxr.errors import CtxrError, DataError, UsageError
from ctxr.models.hub import from_root, makes_pairs
from ctxr.models.identity import model_identity, resolved_name
from ctxr.models.training.recipe import Recipe
from ctxr.pipelines.modelling.config import SeedResult, Train, TrainReport
from ctxr.problems.question import Question, find_learner
from ctxr.problems.recipes import read_recipe
from ctxr.problems.registry import problem_of, recipe_class
from ctxr.problems.runs import EPOCHS, NAMED, REGIONS, HistoryRow
from ctxr.problems.verdicts import verdict_artifacts
from ctxr.store.artifacts import MANIFEST, Artifact, Content, Manifest, Parent, finished, open_artifact, take_manifest
from ctxr.store.atomic import DRY_RUN
from ctxr.store.hashing import sha256_file
from ctxr.store.kinds import JUDGMENTS, MODEL, REGION_FEATURES, RUN, RUNS, TRAINED
from ctxr.store.paths import portable, rooted
from ctxr.store.tables import read_table, write_table

if TYPE_CHECKING:
    from ctxr.models.training.state import Epoch
    from ctxr.problems.training import TrainJob

JUDGED = ("valid", "test")

FEW = 50
"""Queries of a split below which the figures of a run mean nothing."""


def load_recipe(named: str, parity: str = "fixed", changes: Sequence[str] = ()) -> Any:
    """The recipe of any problem, as `read_recipe` reads it."""
    return read_recipe(named, parity, changes, recipe_class)


def run(config: Train, progress: Progress = SILENT) -> TrainReport:
    """Train or resume, and report. Raises DataError for a bad dataset or checkpoint, CtxrError for an infinite loss."""
    config.check()
    recipe = load_recipe(config.recipe, config.parity, config.changes)
    question = problem_of(asdict(recipe))
    stage = Training(config, question.adapted(recipe, config), question)

    def lead() -> bool:
        up_to_date = execute(stage, progress).up_to_date
        remember_dataset(stage.out(), config.dataset)
        return up_to_date

    def follow() -> Any:
        return find_learner(question).job(config, stage.inputs(SILENT).recipe, SILENT)

    if this_process().world == 1 or DRY_RUN.get():
        return report_on(stage.out(), lead())
    return report_on(stage.out(), resolve_name("ctxr.problems.training:together")(config.device, lead, follow))


@dataclass(frozen=True)
class TrainInputs(Inputs):
    """The recipe, with the names and places under which what it names was found: the key has the content of these places."""

    recipe: Recipe


class Training(Stage[TrainInputs]):
    """A run: its seeds one after another. Finished seeds are not trained again."""

    IN_PLACE = True
    options: Train

    def __init__(self, options: Train, recipe: Recipe, question: Question) -> None:
        super().__init__(options)
        self.recipe, self.question, self.KIND = recipe, question, question.KIND

    def out(self) -> Path:
        """The folder of the run."""
        return self.options.folder({kind: folder for folder, kind in TRAINED.items()}[self.KIND])

    def inputs(self, progress: Progress) -> TrainInputs:
        """The dataset, what the recipe names, and what judges and people said of its pairs."""
        options, workdir, recipe = self.options, self.options.workdir, self._with_encoder(progress)
        path = self.question.learned_from(options.dataset, workdir, progress)
        name = path.resolve().name if path.is_dir() else path.stem
        parents = dataset_parents(path, name, workdir, progress)
        contents = dict[str, str]()
        for field, kind in recipe.inputs():
            if named := getattr(recipe, field):
                if kind not in (RUN, REGION_FEATURES):
                    named = resolved_name(named, workdir) if kind == MODEL else from_root(named)
                recipe = replace(recipe, **{field: named})
                own = list(_named(kind, named, workdir))
                head, colon, place = named.rpartition(":")
                if own and Path(place).is_absolute():
                    contents[field] = f"{head}{colon}{own[0].sha256}"
                parents += own
        judged = [one if one.is_dir() else one.parent for one in (options.judgments, path) if one is not None]
        if options.judgments is not None:
            table = options.judgments / "judgments.jsonl" if options.judgments.is_dir() else options.judgments
            parents.append(Parent(table.name, JUDGMENTS, sha256_file(table)))
        # people may have decided pairs of which judges were unsure
        if any((folder / ROUNDS).is_file() for folder in judged):
            verdicts = verdict_artifacts(judged, workdir)
            parents += [Parent(one.path.name, one.manifest.kind, one.content) for one in verdicts]
        seeds = options.seeds if recipe.learns else 1
        # what was found may not do what the recipe asks for
        return TrainInputs(parents, {**portable(recipe.key(), workdir), **contents, "seeds": seeds}, recipe.check())

    def _with_encoder(self, progress: Progress) -> Recipe:
        """The recipe. Where the weights of its encoder cannot be had, a recipe of ctxr that does not tune it takes another one."""
        recipe, options = self.recipe, self.options
        encoder = getattr(recipe, "encoder", "") if "encoder" in dict(recipe.inputs()) else ""
        named = options.recipe.endswith(".toml") or any(change.startswith("encoder") for change in options.changes)
        if not encoder or named or makes_pairs(encoder) or (recipe.learns and recipe.tunes):
            return recipe
        try:
            resolved_name(encoder, options.workdir)
        except UsageError:
            raise
        except CtxrError as error:
            other: dict[str, Any] = {"encoder": resolved_name("auto", options.workdir)}
            progress.warn(
                f"{error.message}: this run uses {other['encoder']}, and its figures are not those of the paper"
            )
            if hasattr(recipe, "start"):  # no run tuned this encoder
                other["start"] = ""
            return replace(recipe, **other)
        return recipe

    def pending(self, artifact: Artifact, inputs: TrainInputs) -> bool:
        """Whether a file or folder that the checkpoints name is no longer there."""
        names = rooted(artifact.manifest.models[NAMED], self.options.workdir)
        paths = [Path(name.rpartition(":")[2]) for name in names.values()]
        return any(path.is_absolute() and not path.exists() for path in paths)

    def write(self, inputs: TrainInputs, out: Path, progress: Progress) -> Content:
        """A checkpoint of each seed, history and figures; an earlier run stays until an unfinished seed trains."""
        job: TrainJob = find_learner(self.question).job(self.options, inputs.recipe, progress)
        if few := [f"{split} {count}" for split, count in job.queries.items() if 0 < count < FEW]:
            progress.warn(f"fewer than {FEW} {job.UNIT} ({', '.join(few)}): figures of this run mean nothing")
        job.check()
        self.announce(progress, **{job.UNIT: sum(job.queries.values())}, seeds=job.seeds, device=job.device)
        # seeds with damaged files of this very run are trained again
        if this := finished(out, self.KIND, self.options.COMMAND, inputs.key, inputs.parents):
            damaged = {Path(name).parts[0] for name in this.changed_files() if "/" in name}
            take_manifest(out)
            for name in sorted(damaged):
                progress.warn(
                    f"{out / name} was changed or damaged since it was written, so this seed is trained again"
                )
                shutil.rmtree(out / name, ignore_errors=True)
        count = range(job.seeds)
        for seed in count:
            with suppress(DataError):
                if job.checkpoint(out / f"seed{seed}").made_by == job.seed_key(seed):
                    continue
            trained = job.train_seed(seed, self.options.tensorboard)
            take_manifest(out)
            shutil.rmtree(out / f"seed{seed}", ignore_errors=True)
            write_history(out, {*count} - {seed}, seed, trained.epochs)
            trained.save(out / f"seed{seed}")
        take_manifest(out)
        seeds = [f"seed{seed}" for seed in count]
        for extra in out.glob("seed*"):
            if extra.name[4:].isdigit() and extra.name not in seeds:
                shutil.rmtree(extra)
        write_history(out, count)  # a run may have had more
        files = [*job.write_scores(), EPOCHS]
        files += [f"{seed}/{file.name}" for seed in seeds for file in (out / seed).iterdir()]
        job.clear()
        named = {field: getattr(inputs.recipe, field) for field, _ in inputs.recipe.inputs()}
        models = portable(job.models() | {NAMED: named}, self.options.workdir)
        return Content(files, _counts(job, out), models)


def _named(kind: str, name: str, workdir: Path) -> Iterator[Parent]:
    """What a recipe names, by content; none for a missing thing: opening it raises the error."""
    if kind == MODEL:
        yield Parent(Path(name).name, MODEL, model_identity(name, workdir))
        return
    if kind in (RUN, REGION_FEATURES):
        folder = workdir / (RUNS if kind == RUN else REGIONS) / name
        if (folder / MANIFEST).is_file():
            yield Parent(name, kind, open_artifact(folder, kind).sha256)
        return
    file = Path(name.rpartition(":")[2])
    for path in (file, file.with_suffix(".json")):
        if path.is_file():
            yield Parent(path.name, kind, sha256_file(path))


def _counts(job: "TrainJob", out: Path) -> dict[str, object]:
    """What the manifest counts, and what is reported of the run."""
    history, results, seeds = read_table(out / EPOCHS, HistoryRow), job.results(), []
    for seed in range(job.seeds):
        accuracies = {row.epoch: row.accuracy for row in history if row.seed == seed}
        epoch = job.checkpoint(out / f"seed{seed}").epoch
        valid, test = (accuracies.get(epoch), None) if results is None else results[seed]
        seeds.append(SeedResult(seed, epoch, len(accuracies), valid, test))
    known = {split: [share for seed in seeds if (share := getattr(seed, split)) is not None] for split in JUDGED}
    facts = {name: getattr(job, name) for name in ("encoder", "dataset", "queries", "regions", "judged_on")}
    words = {"unit": job.UNIT, "measure": job.MEASURE, "note": job.NOTE, "results": [asdict(seed) for seed in seeds]}
    means = (mean(known[split]) if known[split] else None for split in JUDGED)
    return job.counts(*means) | portable(facts, out.parents[1]) | words


def report_on(folder: Path, up_to_date: bool) -> TrainReport:
    """A finished run, as its manifest says."""
    manifest: Manifest = open_artifact(folder).manifest
    counts = manifest.counts
    facts = ("encoder", "dataset", "queries", "regions", "judged_on", "unit", "measure", "note")
    return TrainReport(
        run=folder.resolve().name,
        folder=folder,
        variant=manifest.config["variant"],
        seeds=tuple(SeedResult(**one) for one in counts["results"]),
        up_to_date=up_to_date,
        valid=counts.get("valid"),
        test=counts.get("test"),
        **{name: counts[name] for name in facts},
    )


def write_history(run: Path, kept: Container[int], seed: int = 0, epochs: "Sequence[Epoch]" = ()) -> None:
    """Keep the epochs of some seeds, and add those of one."""
    before = read_table(run / EPOCHS, HistoryRow) if (run / EPOCHS).exists() else []
    rows = [HistoryRow(seed, row.epoch, row.loss, row.accuracy) for row in epochs]
    write_table(run / EPOCHS, [*(row for row in before if row.seed in kept), *rows])
