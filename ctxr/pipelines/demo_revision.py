"""The revision of the demo: captions that hold for many pictures, found by an entailment classifier, next to the drawn truth."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctxr.pipelines.talk import Talk

DRAWN: dict[str, Any] = {"least": 2, "most": 4, "hypotheses": 6, "texts": 2, "say": ("Shows", "Before")}
"""What is drawn for each picture (`WorldCaptions`): captions that say what is seen and on what, so that little is to be learned."""

CLASSIFIER = ("entailment-tiny", ("epochs=4", "wanted_precision=0.7"))
"""Recipe of the classifier, and what is changed there."""

RETRIEVAL = ("encoder=ctxr-tiny", "batch=96", "at_once=96", "lr=1e-4", "epochs=2", "patience=0", "precision=fp32")
"""What is changed in the recipes for retrieval: an encoder that is small enough to be tuned here."""

RUNS = {"as-written": "retrieval-clip", "weak-positives": "retrieval-clip-weak"}
"""Runs and their recipes: the same training without and with what the classifier added."""

MOST = 3
"""Captions that are added to a picture at most, the surest: so small a classifier is right about few."""

BY = "ctxr-tiny"
"""What proposes candidates, and is tuned."""

MEANING = {
    "as-written": "tuned on what was written",
    "weak-positives": "and on what was added",
    BY: "the encoder as it came",
}
"""What each run is, in words for a table."""

RESAMPLES = 1000

FEW = 150
"""Pictures that are drawn before another process has started."""

K = 10
"""Captions of a picture that Entail@K looks at."""


@dataclass(frozen=True)
class RevisionSizes:
    """How much is drawn and looked at.

    Attributes:
        pairs: pictures that the classifier learns from; a quarter as many choose epoch and threshold.
        gallery: pictures of train, and of test. looks: pairs of the round that people are shown, or a few more.
    """

    pairs: int
    gallery: int
    looks: int


@dataclass(frozen=True)
class Proportion:
    """A share 0..1 with its interval of 95 %; None where it is undefined."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Reliable:
    """Precision or recall of what was added: as people say who saw a sample, and as it was drawn."""

    name: str
    people: Proportion
    drawn: float | None


@dataclass(frozen=True)
class RevisionReport:
    """What the revision of the demo came to.

    Attributes:
        learned: pictures that the classifier learned from. judged: pairs that it was judged on. classifier: by name of the figure.
        pictures: whose captions were revised. threshold: probability from which on a pair was added.
        candidates, added: of the round. doubtful: of the candidates, too close to call: they count neither way in what was drawn.
        answers: people's. looked: pairs that they decided. kappa: among people, and of people with the classifier.
        entail_at: by the truth, of the runs in the order of MEANING; without what was added where nothing was.
        gain: of training with what was added over training without. page: the report.
    """

    learned: int
    judged: int
    classifier: dict[str, Proportion]
    pictures: int
    threshold: float
    candidates: int
    added: int
    doubtful: int
    answers: int
    looked: int
    kappa: dict[str, float | None]
    reliable: tuple[Reliable, ...]
    entail_at: dict[str, Proportion]
    gain: Proportion | None
    page: Path


def run_revision(work: Path, sizes: RevisionSizes, seed: int, talk: Talk) -> RevisionReport:
    """Draw captions, train and judge a classifier, revise, ask people, train retrieval with and without what was added, report.

    A demo that is run again finds everything there.
    """
    from ctxr.pipelines import eval, export_tasks, report, revise_labels, train
    from ctxr.pipelines.revising.auditing import checked
    from ctxr.pipelines.revising.rounds import FOLDER, read_rounds
    from ctxr.pipelines.world_captions import WorldCaptions, write_captions

    drawn = work / "dataset"
    sides: dict[str, Any] = {"train": sizes.gallery, "valid": 0, "test": sizes.gallery, "pair_train": sizes.pairs}
    workers = 2 if sum(sides.values()) > FEW else 1
    world = WorldCaptions(drawn, **sides, pair_valid=max(8, sizes.pairs // 4), seed=seed, workers=workers, **DRAWN)
    write_captions(world, talk)
    recipe, changes = CLASSIFIER
    train.run(train.Train(recipe, drawn, changes=changes, workdir=work), talk)
    judged = eval.run(eval.Eval((recipe,), drawn, work, split="test", resamples=RESAMPLES), talk)
    revise_labels.run(
        revise_labels.ReviseLabels(entail=True, by=BY, per_image=MOST, sample=sizes.looks, seed=seed, workdir=work),
        talk,
    )
    export_tasks.run(export_tasks.ExportTasks(task="entail", workdir=work, seed=seed), talk)
    answers = _asked(work, drawn, seed, talk)
    revise_labels.run(revise_labels.ReviseLabels(audit=True, seed=seed, workdir=work), talk)
    (made,) = read_rounds(work / FOLDER)
    runs = [run for run in RUNS if made.added or run == "as-written"]
    for run in runs:
        train.run(train.Train(RUNS[run], work / FOLDER, run, changes=RETRIEVAL, workdir=work), talk)
    asked = eval.Eval(
        (*runs, BY), work / FOLDER, work, split="test", compare=True, resamples=RESAMPLES, permutations=RESAMPLES
    )
    compared = eval.run(asked, talk).results
    page = report.run(report.Report(work / FOLDER, workdir=work), talk).page
    quality = [row for row in judged.tables["test/quality"].rows if row[1] == "all"]
    audited: dict[str, Any] = checked(work / "revision-audit" / "001") or {}
    drawn_as, doubtful = _drawn(work, drawn)
    shares, gain = _entail_at(compared)
    return RevisionReport(
        learned=sizes.pairs,
        judged=quality[0][6],
        classifier={row[2]: Proportion(*row[3:6]) for row in quality},
        pictures=made.images,
        threshold=made.threshold,
        candidates=made.candidates,
        added=made.added,
        doubtful=doubtful,
        answers=answers,
        looked=audited["revision"]["looked"],
        kappa={
            name: one["value"]
            for name, one in {**audited["between"], "people and classifier": audited["with_people"]}.items()
        },
        reliable=tuple(Reliable(name, _share(audited["revision"][name]), value) for name, value in drawn_as.items()),
        entail_at=shares,
        gain=gain,
        page=page,
    )


def _asked(work: Path, drawn: Path, seed: int, talk: Talk) -> int:
    """How many answers people gave to the sample; those of an earlier demo are kept."""
    from ctxr.data.artifacts import MANIFEST
    from ctxr.pipelines.collecting import collected
    from ctxr.pipelines.revising.rehearsal import rehearse_audit
    from ctxr.pipelines.standing import is_there
    from ctxr.pipelines.tasks_artifact import JUDGMENTS, read_judgments

    if not is_there(work) or not (work / JUDGMENTS / MANIFEST).is_file():
        rehearse_audit(work, drawn, seed, talk)
    return len(read_judgments(collected(work, talk)).answers)


def _drawn(work: Path, drawn: Path) -> tuple[dict[str, float | None], int]:
    """Precision and recall of what was added by the drawn truth, over all candidates but those that are too close to call; and how
    many those are."""
    from ctxr.data.caption_truth import CaptionTruth
    from ctxr.data.tables import read_table
    from ctxr.pipelines.revising.records import CandidateRow
    from ctxr.pipelines.revising.rounds import FOLDER, LEDGER, folder_of

    truth = {row.caption: row for row in read_table(drawn / "truth.jsonl", CaptionTruth)}
    links = read_table(work / FOLDER / folder_of(1) / LEDGER, CandidateRow)
    clear = [link for link in links if link.image not in truth[link.caption].doubtful]
    right = [link.decision == "added" for link in clear if link.image in truth[link.caption].holds]
    added = sum(link.decision == "added" for link in clear)
    found = sum(right)
    shares = {"precision": found / added if added else None, "recall": found / len(right) if right else None}
    return shares, len(links) - len(clear)


def _entail_at(results: Path) -> tuple[dict[str, Proportion], Proportion | None]:
    """Entail@K of each run by the truth, and what the second gains over the first; None where there is no second."""
    import msgspec

    told = msgspec.json.decode((results / "figures.json").read_bytes())
    gold = {
        row["run"]: _share(row["found"]["value"])
        for row in told["entailed"]
        if (row["found"]["k"], row["by"]) == (K, "gold")
    }
    gains = [_share(row) for row in told["differences"] if (row["run"], row["part"]) == ("weak-positives", f"E@{K}")]
    return {run: gold[run] for run in MEANING if run in gold}, next(iter(gains), None)


def _share(interval: Mapping[str, Any]) -> Proportion:
    return Proportion(interval["value"], interval["low"], interval["high"])
