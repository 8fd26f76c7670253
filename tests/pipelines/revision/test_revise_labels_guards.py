"""What a revision refuses: rounds that were edited, pictures that were learned from; and what its threshold rests on."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ctxr.datasets.changes import parent_of
from ctxr.datasets.open import read_dataset
from ctxr.datasets.pairs import EntailmentPair
from ctxr.datasets.readers.artifact import open_sets
from ctxr.datasets.rounds import Round, labels_of_sample, open_base
from ctxr.engine.progress import Silent
from ctxr.errors import DataError, UsageError
from ctxr.metrics.entailment import FEW_CALLED
from ctxr.models.entailment.base import Claim, Judge
from ctxr.models.judges.cascade import Cascade
from ctxr.pipelines.inspection.artifact_check import check_artifact
from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.pipelines.revision.inputs import choose_threshold
from ctxr.pipelines.revision.revise_labels import run
from ctxr.problems.verdicts import people_of
from ctxr.store.tables import read_table, write_table
from tests.pipelines.revision.stand_in import Listening, StandIn
from tests.pipelines.revision.test_revise_labels import bytes_of, options


class Said(Judge):
    """Says of claims what it was told to say of their hypotheses."""

    name, fingerprint, threshold, trained_on = "said", "said", 0.5, frozenset[str]()

    def __init__(self, chances: dict[str, float]) -> None:
        self.chances = chances

    def probabilities(
        self, claims: Sequence[Claim], advance: Callable[[float], None] | None = None
    ) -> np.typing.NDArray[np.float32]:
        return np.array([self.chances[claim.hypothesis] for claim in claims], np.float32)


def dev_of(workdir: Path, rows: Sequence[tuple[str, bool, float, int]]) -> tuple[Path, Said]:
    """A table of dev pairs (hypothesis, whether about a picture, probability, label), and who says so."""
    image = next(iter(read_dataset(workdir / "dataset").images))
    pairs = [
        EntailmentPair(told, "p", told, image if shown else None, label, "x", "dev", "valid", "g")  # type: ignore[arg-type]
        for told, shown, _, label in rows
    ]
    write_table(workdir / "dev.jsonl", pairs)
    return workdir / "dev.jsonl", Said({told: chance for told, _, chance, _ in rows})


def test_texts_alone_do_not_choose_a_threshold_where_pictures_were_chosen_by(workdir: Path) -> None:
    rows = [("a", True, 0.75, 1), ("b", True, 0.5, 0), ("c", False, 0.875, 0), ("d", False, 0.25, 1)]
    dev, judge = dev_of(workdir, rows)
    base, progress = open_base(workdir / "dataset", workdir, Silent()), Listening()
    config = ReviseLabels(workdir=workdir, dev=dev, precision=1.0)
    edge = choose_threshold(config, base, Cascade((judge,)), None, progress)
    assert (edge.value, edge.precision, edge.recall, edge.called) == (0.75, 1.0, 1.0, 1)
    assert edge.precision_low == pytest.approx(0.025)
    (said,) = progress.warned
    assert re.match(r".*threshold 0\.750 .* 1 pair, .* 20: .* 0\.02", said)
    dev, judge = dev_of(workdir, [row for row in rows if not row[1]] + [("e", False, 0.96875, 1)])
    edge = choose_threshold(config, base, Cascade((judge,)), None, progress)
    assert (edge.value, edge.called) == (0.96875, 1)


@pytest.mark.parametrize(
    "name", ["rounds/001/judgments.jsonl", "rounds/001/ledger.jsonl", "rounds.jsonl", "judgments.jsonl"]
)
def test_rounds_that_were_edited_are_not_put_in_force(name: str, workdir: Path) -> None:
    judge = StandIn(workdir / "dataset")
    run(options(workdir), classifier=judge)
    out = workdir / "revised"
    text = (out / name).read_text()
    (out / name).write_text(text.replace('"value":0.0', '"value":1.0').replace('"rejected"', '"added"') + "\n")
    before = bytes_of(out)
    for config in (
        replace(ReviseLabels(workdir=workdir), undo=True), options(workdir), options(workdir, threshold=0.9),
        ReviseLabels(workdir=workdir, retriever="hashed"), ReviseLabels(workdir=workdir, audit=True),
    ):  # fmt: skip
        with pytest.raises(DataError, match=rf"{name} was changed") as refused:
            run(config, classifier=judge)
        assert "--out ANOTHER" in (refused.value.hint or "")
    with pytest.raises(DataError, match=rf"{name} was changed"):
        labels_of_sample(out / "rounds" / "001" / "sample.jsonl")
    with pytest.raises(DataError, match=rf"{name} was changed"):
        people_of([out], workdir)
    for read in (lambda: open_sets(out), lambda: parent_of(read_dataset(out), "")):
        with pytest.raises(DataError, match=rf"{name} was changed") as unread:
            read()
        assert unread.value.hint == refused.value.hint
    (found,) = [check for check in check_artifact(out, Silent()) if check.state == "problem"]
    assert f"{name} was changed" in found.detail
    assert found.cure == refused.value.hint
    assert bytes_of(out) == before


def test_an_edited_round_without_a_manifest_is_not_put_in_force(workdir: Path) -> None:
    run(options(workdir), classifier=StandIn(workdir / "dataset"))
    out = workdir / "revised"
    (out / "manifest.json").unlink()
    file = out / "rounds" / "001" / "judgments.jsonl"
    file.write_text(file.read_text().replace('"value":0.0', '"value":1.0'))
    for config in (options(workdir), replace(ReviseLabels(workdir=workdir), undo=True)):
        with pytest.raises(DataError, match=r"rounds/001/judgments\.jsonl was changed"):
            run(config, classifier=StandIn(workdir / "dataset"))


def test_how_a_threshold_came_about_is_told_again_with_its_round(workdir: Path) -> None:
    judge, progress = StandIn(workdir / "dataset", specificity=0.7), Listening()
    for _ in range(2):
        report = run(options(workdir, precision=0.8), progress, classifier=judge)
        assert " called; recall " in report.facts["added"]
    (made,) = read_table(workdir / "revised" / "rounds.jsonl", Round)
    assert made.called is not None
    assert bool(progress.warned) == (made.called < FEW_CALLED)
    assert f" of {made.called:,} called; recall " in report.facts["added"]
    assert made.threshold_from == "dev"
    assert made.precision is not None
    assert made.precision >= 0.8
    with pytest.raises(DataError, match=r"threshold of stand-in .* 0\.9 on"):
        run(options(workdir, precision=0.9), classifier=StandIn(workdir / "dataset", 0.0, 0.0))


@pytest.mark.parametrize("entail", [False, True])
def test_a_table_of_dev_pairs_that_is_not_there_is_a_mistyped_path(entail: bool, workdir: Path) -> None:
    config = replace(options(workdir, precision=0.9, dev=Path("nosuch.jsonl")), entail=entail)
    with pytest.raises(UsageError, match=r"nosuch\.jsonl does not") as caught:
        run(config, classifier=StandIn(workdir / "dataset"))
    assert "--dev names" in caught.value.hint
    with pytest.raises(UsageError, match="a folder, not"):
        run(replace(config, dev=workdir / "dataset"), classifier=StandIn(workdir / "dataset"))


def test_a_dataset_is_called_the_same_before_and_after_a_round(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workdir.parent)
    near = Path(workdir.name)
    for out in (near / "revised", Path("elsewhere")):
        plan = ReviseLabels(workdir=near, retriever="hashed", out=out)
        before = run(plan).facts["dataset"]
        run(options(near, out=out, split="test"), classifier=StandIn(near / "dataset"))
        run(replace(plan, undo=True))
        assert run(plan).facts["dataset"] == before == near / "dataset"
    (workdir.parent / "deep").mkdir()
    monkeypatch.chdir(workdir.parent / "deep")
    assert (
        run(ReviseLabels(workdir=Path("w"), retriever="hashed", out=Path("../elsewhere"))).facts["dataset"]
        == workdir / "dataset"
    )
