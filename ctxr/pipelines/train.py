"""`ctxr train`: a recipe and a dataset become a run: trained scorers, how they came about, and their scores."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ctxr.errors import UsageError
from ctxr.pipelines.talk import Silent, Talk

if TYPE_CHECKING:
    from ctxr.models.training.recipe import Recipe


@dataclass(frozen=True)
class Train:
    """Configuration of `ctxr train`; a field's text is its help."""

    recipe: str = "clip-batch"
    """clip, vilbert, uniter or blip with -zero-shot, -none, -batch, -module, -temporal; retrieval-clip, -uniter, -blip, also -weak;
    entailment, entailment-tiny; or a TOML file."""
    dataset: Path | None = None
    """Artifact or release with train, valid and test queries, or pairs for entailment; default: the latest finished one in the workdir."""
    name: str | None = None
    """What the run is called; default: as its recipe."""
    seeds: int = 1
    """How many trainings, with the seeds 0, 1, 2 and so on, make up the run."""
    parity: str = "fixed"
    """Fixed (published numbers without known errors), paper (its text at its word) or code (what the released scripts do)."""
    changes: tuple[str, ...] = ()
    """Another value for a key of the recipe, such as lr=1e-4 or encoder=ctxr-tiny; can be given several times."""
    judgments: Path | None = None
    """More judgments (table or folder with judgments.jsonl), whose entailed pairs are weak positives: --set weak=extra-batch."""
    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""
    device: str = "auto"
    """Where to train: auto, cpu, cuda, mps."""
    tensorboard: bool = False
    """Write what each epoch came to for TensorBoard too, in `tensorboard/` of the run; needs the package tensorboard."""
    text_only: bool = False
    """A classifier of entailment without its image branch: --set image=."""
    image_only: bool = False
    """A classifier of entailment without its text branch: --set text=."""

    def folder(self, recipe: "Recipe | None" = None) -> Path:
        """Where the run is written; a classifier stands apart from what is evaluated on queries."""
        from ctxr.pipelines.entailing import CLASSIFIERS
        from ctxr.pipelines.training.recipes import recipe_name

        kind = "runs" if recipe is None or recipe.variant != "entailment" else CLASSIFIERS
        return self.workdir / kind / (self.name or recipe_name(self.recipe))


@dataclass(frozen=True)
class SeedResult:
    """What one seed came to.

    Attributes:
        epoch: the one that was chosen, from 1; 0 where nothing is trained. epochs: trained in all.
        valid, test: expected accuracy 0..1, in galleries mean recall (TR and IR at 1, 5, 10); None where no target is known.
    """

    seed: int
    epoch: int
    epochs: int
    valid: float | None
    test: float | None


@dataclass(frozen=True)
class TrainReport:
    """What `train` made.

    Attributes:
        run: its name. variant, encoder: of its scorers. dataset: what it learned from.
        queries: of each side. seeds: each by itself.
        valid, test: means over the seeds; None where no target is known.
        up_to_date: whether it was there already. regions: that the encoder looks at, "" for pixels.
        judged_on: the side that chose the epoch, "valid" or "test"; "" where none did.
    """

    run: str
    folder: Path
    variant: str
    encoder: str
    dataset: str
    queries: dict[str, int]
    seeds: tuple[SeedResult, ...]
    valid: float | None
    test: float | None
    up_to_date: bool = False
    regions: str = ""
    judged_on: str = "valid"


def run(config: Train, talk: Talk | None = None) -> TrainReport:
    """Train, or go on where it was stopped, and say what came out.

    Raises UsageError for wrong arguments, DataError for a dataset that cannot be trained on or a checkpoint of another encoder,
    UnfinishedError without a finished dataset, CtxrError when the loss is no number any more.
    """
    from ctxr.pipelines.training.recipes import load_recipe

    if config.seeds < 1:
        raise UsageError(f"--seeds {config.seeds} trains nothing", hint="--seeds 3")
    if config.name is not None and (config.name in ("", "..") or Path(config.name).name != config.name):
        raise UsageError(f"--name {config.name!r} is no name of a folder", hint="--name first-try")
    if config.text_only and config.image_only:
        raise UsageError("--text-only and --image-only leave nothing of a classifier", hint="give one of them")
    recipe = load_recipe(config.recipe, config.parity, config.changes)
    from ctxr.models.entailment.recipe import ClassifierRecipe

    if isinstance(recipe, ClassifierRecipe):
        from ctxr.pipelines.entailing_train import train_classifier

        if config.text_only or config.image_only:
            recipe = replace(recipe, image="") if config.text_only else replace(recipe, text="")
            recipe.check()
        return _remembered(config, train_classifier(config, recipe, talk or Silent()))
    if config.text_only or config.image_only:
        raise UsageError("--text-only and --image-only are about classifiers", hint="--recipe entailment")
    if config.judgments is not None and recipe.weak == "off":
        raise UsageError(
            "--judgments says what is entailed, and the recipe has weak = off", hint="--set weak=extra-batch"
        )
    from ctxr.pipelines.training.work import train

    return _remembered(config, train(config, recipe, talk or Silent()))


def _remembered(config: Train, report: TrainReport) -> TrainReport:
    """The report; where the dataset lies is noted for `ctxr eval`."""
    from ctxr.pipelines.lineage import remember_dataset

    remember_dataset(report.folder, config.dataset)
    return report
