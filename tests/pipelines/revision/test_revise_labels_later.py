"""A later round looks further: at nothing that its classifier rejected before, as long as that stays in force."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ctxr.datasets.open import read_dataset
from ctxr.datasets.rounds import CandidateRow, read_figures
from ctxr.errors import UsageError
from ctxr.media.images import read_image
from ctxr.pipelines.revision import decisions
from ctxr.pipelines.revision.candidates import mine
from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.pipelines.revision.inputs import MinedGallery, galleries_of
from ctxr.pipelines.revision.results import audited_counts
from ctxr.pipelines.revision.revise_labels import run
from tests.pipelines.revision.stand_in import Hashed, StandIn, ledger_of, truth_of
from tests.pipelines.revision.test_revise_labels import bytes_of, options

Pairs = set[tuple[str | int, ...]]


def pairs_of(links: list[CandidateRow], *reasons: str | None) -> Pairs:
    return {link.key() for link in links if link.reason in reasons}


def second(workdir: Path, judge: StandIn, **changes: Any) -> list[CandidateRow]:
    """The ledger of a round on top of a first one, which has other caps."""
    run(options(workdir, split="test", per_image=2), classifier=judge)
    run(options(workdir, split="test", per_image=3, **changes), classifier=judge)
    return ledger_of(workdir, 2)


def test_a_later_round_looks_at_as_many_new_candidates_and_again_at_what_a_cap_left_out(workdir: Path) -> None:
    judge = StandIn(workdir / "dataset")
    two = second(workdir, judge)
    one = ledger_of(workdir, 1)
    below, added, capped = (pairs_of(one, *why) for why in (["below_threshold"], [None], ["cap_image", "cap_caption"]))
    looked = {link.key() for link in two}
    assert below
    assert not looked & (below | added)
    assert capped
    assert capped <= looked
    assert [sum(link.image == image for link in two) for image in {link.image for link in one}] == [20] * 24


def test_what_was_rejected_counts_again_where_its_round_was_taken_back_or_the_threshold_is_lower(workdir: Path) -> None:
    judge = StandIn(workdir / "dataset")
    run(options(workdir, split="test"), classifier=judge)
    below = pairs_of(ledger_of(workdir, 1), "below_threshold")
    run(options(workdir, split="test", threshold=0.3), classifier=judge)
    lower = ledger_of(workdir, 2)
    assert below & pairs_of(lower, None)
    run(ReviseLabels(workdir=workdir, undo=True))
    other = StandIn(workdir / "dataset", specificity=0.9)
    run(options(workdir, split="test"), classifier=other)
    assert below & {link.key() for link in ledger_of(workdir, 3)}
    run(ReviseLabels(workdir=workdir, undo=True))
    run(ReviseLabels(workdir=workdir, undo=True))
    run(options(workdir, split="test", sample=0), classifier=judge)
    assert pairs_of(ledger_of(workdir, 4), "below_threshold") == below


def test_entail_at_k_counts_what_was_given_and_what_is_entailed_in_later_rounds_too(workdir: Path) -> None:
    judge = StandIn(workdir / "dataset")
    config = options(workdir, split="test", top_k=30, per_image=0, per_caption=0)
    reports = [run(one, classifier=judge) for one in (config, replace(config, sample=0))]
    dataset = read_dataset(workdir / "dataset")
    truth = truth_of(workdir)
    (gallery,) = galleries_of(dataset, {}, "test", 0)
    pixels = [read_image(workdir / "dataset" / dataset.images[name].path) for name in gallery.images]
    captions = Hashed().encode_texts([dataset.texts[name].text for name in gallery.captions])
    scores = Hashed().encode_images(pixels).astype(np.float64) @ captions.T.astype(np.float64)
    for k in (10, 30):
        first = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        holds = [
            [image in truth[gallery.captions[place]].holds for place in first[row]]
            for row, image in enumerate(gallery.images)
        ]
        for report in reports:
            shown = {row[0]: float(row[1].split()[0]) for row in report.tables["entail"].rows}
            assert shown[f"E@{k}"] == pytest.approx(100 * np.mean(holds), abs=0.8)


def test_what_an_earlier_sample_tells_of_is_not_corrected_by_that_of_a_later_round(workdir: Path) -> None:
    judge = StandIn(workdir / "dataset")
    nothing: dict[str, Any] = {"split": "test", "top_k": 30, "threshold": 1.0}  # all are rejected
    run(options(workdir, **nothing), classifier=judge)
    run(options(workdir, **nothing, sample=20), classifier=judge)
    one, two = (read_figures(workdir / "revised" / "rounds" / name)["counted"] for name in ("001", "002"))
    assert not np.any(one["rejected"])
    assert not np.any(two["earlier"])
    assert np.any(two["rejected"])
    assert audited_counts(one, (10, 30), ledger_of(workdir, 1), ()) is not None
    assert audited_counts(two, (10, 30), ledger_of(workdir, 2), ()) is None


def test_later_rounds_are_byte_equal_resumed_and_nothing_to_do_again(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "SHARD", 64)
    judge = StandIn(workdir / "dataset")
    second(workdir, judge)
    before, asked = bytes_of(workdir / "revised"), judge.claims
    for per_image, number in ((2, 1), (3, 2)):
        report = run(options(workdir, split="test", per_image=per_image), classifier=judge)
        assert (report.did, report.round) == ("up to date", number)
    assert judge.claims == asked
    shutil.rmtree(workdir / ".ctxr-cache")
    out = workdir / "again"
    run(options(workdir, split="test", per_image=2, out=out), classifier=judge)
    killed = StandIn(workdir / "dataset", dies_after=100)
    with pytest.raises(KeyboardInterrupt):
        run(options(workdir, split="test", per_image=3, out=out), classifier=killed)
    run(options(workdir, split="test", per_image=3, out=out), classifier=judge)
    assert bytes_of(out) == before == bytes_of(workdir / "revised")


def test_a_plan_leaves_out_what_its_round_will_leave_out(workdir: Path) -> None:
    judge = StandIn(workdir / "dataset")
    run(options(workdir, split="test"), classifier=judge)
    below = len(pairs_of(ledger_of(workdir, 1), "below_threshold"))
    config = ReviseLabels(workdir=workdir, retriever="hashed", split="test", top_k=300)
    facts = run(config, classifier=judge).facts
    assert facts["rejected"].startswith(f"{below:,} pairs ")
    made = run(options(workdir, split="test", top_k=300), classifier=judge).facts["evaluated"]
    assert facts["would judge"].split(":")[0] in made
    wanted = run(options(workdir, entail=False, split="test", precision=0.9), classifier=judge).facts["rejected"]
    assert "threshold" in wanted
    assert "rejected" not in run(options(workdir, entail=False, split="test", threshold=0.1), classifier=judge).facts


def test_where_nothing_is_left_to_look_at_it_is_said(workdir: Path) -> None:
    judge = StandIn(workdir / "dataset")
    everything: dict[str, Any] = {"split": "test", "top_k": 1000, "per_image": 0, "per_caption": 0}
    run(options(workdir, **everything), classifier=judge)
    before = bytes_of(workdir / "revised")
    with pytest.raises(UsageError, match="no pair is"):
        run(options(workdir, **everything, sample=0), classifier=judge)
    assert bytes_of(workdir / "revised") == before


def test_known_pairs_are_no_candidates_and_the_others_are_ranked_without_them() -> None:
    rng = np.random.default_rng(3)
    images, captions = (rng.standard_normal((n, 4)).astype(np.float32) for n in (5, 9))
    names = tuple(map(str, range(9)))
    gallery = MinedGallery("g", "", names[:5], names, ((0, 1), (2, 8)), rejected=((0, 4), (3, 3)), unsure=((4, 0),))
    scores = images @ captions.T
    found = mine(gallery, images, captions, 6, both=True)
    known = [*gallery.given, *gallery.rejected, *gallery.unsure]
    assert not {*zip(found.images.tolist(), found.captions.tolist(), strict=True)} & {*known}
    np.testing.assert_allclose(found.known_scores, [scores[pair] for pair in known], rtol=1e-5)
    for image in range(5):
        left = [place for place in np.argsort(-scores[image]) if (image, place) not in known]
        ranks = {
            int(one): int(rank)
            for row, one, rank in zip(found.images, found.captions, found.ranks, strict=True)
            if row == image
        }
        assert [ranks[place] for place in left[:6]] == [1, 2, 3, 4, 5, 6]
