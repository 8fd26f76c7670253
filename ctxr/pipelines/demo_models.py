"""The models of the demo: the five variants of ImageCoDe on a drawn benchmark, and a cross-encoder over regions."""

from dataclasses import dataclass
from pathlib import Path

from ctxr.pipelines.talk import Talk

TUNED = ("lr=5e-4", "batch=36", "epochs=3", "schedule=cosine", "warmup=0.1")
HEADS = (
    "lr=1e-3", "weight_decay=0.01", "batch=36", "epochs=3", "schedule=cosine", "warmup=0.1", "layers=1", "inner=64",
    "start=batch", "start_at_cosine=true",
)  # fmt: skip
OVER_TINY = "encoder=ctxr-tiny"
REGIONS = "grid"

VARIANTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "zero-shot": ("clip-zero-shot", (OVER_TINY,)),
    "none": ("clip-none", (OVER_TINY, "shared_distractors=true", *TUNED)),
    "batch": ("clip-batch", (OVER_TINY, *TUNED)),
    "module": ("clip-module", (OVER_TINY, *HEADS)),
    "temporal": ("clip-temporal", (OVER_TINY, *HEADS)),
    "uniter": ("uniter-temporal", ("encoder=random:uniter-tiny:512", f"regions={REGIONS}", "lr=1e-3", "epochs=2")),
}
"""Run, its recipe, and what it changes there: a small encoder that is far from what it is tuned for takes larger steps."""

MEANING = {
    "zero-shot": "the encoder as it is",
    "none": "tuned without context",
    "batch": "tuned within each set",
    "module": "and a transformer on top",
    "temporal": "the same, with positions",
    "uniter": "cross-encoder, untaught",
}
"""What each run is, in words for a table."""


@dataclass(frozen=True)
class Accuracy:
    """Of a run on the test side: share 0..1 and its interval of 95 %, None where sets are too few for one.

    Attributes:
        video, static: on these queries alone; None where there is none.
    """

    run: str
    value: float
    low: float | None
    high: float | None
    video: float | None
    static: float | None


@dataclass(frozen=True)
class ModelsReport:
    """What the models of the demo came to.

    Attributes:
        queries: of each side. runs: in the order of `VARIANTS`. page: the report with the error browser.
    """

    queries: dict[str, int]
    runs: tuple[Accuracy, ...]
    page: Path


def run_models(work: Path, queries: int, seed: int, talk: Talk) -> ModelsReport:
    """Draw a benchmark with `queries` on train, train, evaluate, report; a demo that is run again finds everything there."""
    from ctxr.pipelines import eval, regions, report, train
    from ctxr.pipelines.world_benchmark import WorldBenchmark, write_benchmark

    dataset = work / "dataset"
    write_benchmark(WorldBenchmark(dataset, queries, queries // 8, queries // 3, targets=10, seed=seed), talk)
    regions.run(regions.RegionsConfig(dataset=dataset, by="grid:ctxr-tiny", name=REGIONS, workdir=work), talk)
    trained = [
        train.run(train.Train(recipe, dataset, name, changes=changes, workdir=work), talk)
        for name, (recipe, changes) in VARIANTS.items()
    ]
    results = eval.run(eval.Eval(tuple(VARIANTS), dataset, work, split="test", compare=True), talk).results
    return ModelsReport(trained[1].queries, _accuracies(results), report.run(report.Report(workdir=work), talk).page)


def _accuracies(results: Path) -> tuple[Accuracy, ...]:
    import msgspec

    rows = msgspec.json.decode((results / "figures.json").read_bytes())["figures"]
    found = {(row["run"], row["part"]): row for row in rows if (row["view"], row["measure"]) == ("overall", "accuracy")}

    def accuracy(run: str) -> Accuracy:
        whole, *parts = (found.get((run, part), {}) for part in ("all", "video", "photos"))
        return Accuracy(run, whole["value"], whole["low"], whole["high"], *(part.get("value") for part in parts))

    return tuple(map(accuracy, VARIANTS))
