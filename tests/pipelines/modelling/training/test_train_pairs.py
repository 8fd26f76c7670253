"""`ctxr train` with encoders of pairs: live or frozen with their features kept, the same run as any other."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from ctxr.datasets.changes import contents_of
from ctxr.datasets.open import read_dataset
from ctxr.engine.progress import Silent
from ctxr.errors import DataError
from ctxr.models.blip import BlipEncoder
from ctxr.models.cross.sources import CrossSource
from ctxr.models.scorers import PairScorer
from ctxr.models.training.checkpoint import load_head
from ctxr.models.training.scoring import score_all
from ctxr.problems.embeddings import PictureFiles, Runtime, as_features, as_inputs
from ctxr.problems.queries import EvalQuery, check_positions, pictures_of, queries_of
from ctxr.problems.scorers import source_of
from ctxr.store.records import Score
from ctxr.store.tables import read_table
from tests.models.blip_folder import make_blip
from tests.pipelines.modelling.training.conftest import Trains
from tests.problems.scores import scores_of

BLIP = "encoder=random:blip-tiny"


@pytest.fixture(scope="module")
def blip(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"blip:{make_blip(tmp_path_factory.mktemp('blip') / 'one')}"


def test_features_that_were_kept_score_as_the_live_encoder_does(train: Trains, benchmark: Path, tmp_path: Path) -> None:
    train("blip-batch", BLIP, "epochs=1", name="tuned")
    folder = train("blip-module", BLIP, "epochs=1", "start=tuned").folder / "seed0"
    dataset = read_dataset(benchmark)
    asked = queries_of(dataset)
    files = pictures_of(dataset, asked)
    pictures = PictureFiles(files, contents_of(dataset, files), tmp_path / "other")
    source = source_of(folder, "random:blip-tiny", Silent())
    assert isinstance(source, CrossSource)
    live = as_inputs(asked, pictures, source, Runtime("cpu", "fp32", Silent()))
    kept = as_features(asked, pictures, source, Runtime("cpu", "fp32", Silent()))
    encoder, head = source.build(), load_head(folder)
    assert isinstance(head, PairScorer)
    below = load_file(tmp_path / "work" / "runs" / "tuned" / "seed0" / "encoder.safetensors")
    assert all(torch.equal(below[name], weights) for name, weights in encoder.state_dict().items())
    scores = score_all(head, kept, 5)
    torch.testing.assert_close(scores, score_all(PairScorer(encoder, head.head).eval(), live, 5), rtol=1e-4, atol=1e-4)
    rows = {row.key()[:2]: row.value for row in read_table(folder.parent / "scores.jsonl", Score)}
    for one, values in zip(asked, scores.tolist(), strict=True):
        for image, value in zip(one.images, values, strict=True):
            assert rows.get((one.query, image), value) == pytest.approx(value, abs=1e-4)


def test_pair_features_are_computed_once_for_equal_weights(train: Trains, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    plain = BlipEncoder.pairs

    def counted(self: BlipEncoder, *inputs: torch.Tensor) -> torch.Tensor:
        calls.append(len(inputs[1]))
        return plain(self, *inputs)

    monkeypatch.setattr(BlipEncoder, "pairs", counted)
    train("blip-module", BLIP, "epochs=1")
    assert sum(calls) == 24
    train("blip-temporal", BLIP, "epochs=1")
    assert sum(calls) == 24
    train("blip-temporal", BLIP, "epochs=1", "frozen=false", name="joint")
    assert sum(calls) > 24


def test_a_head_over_another_encoder_is_refused(train: Trains, blip: str) -> None:
    train("blip-batch", BLIP, "epochs=1", name="tuned")
    with pytest.raises(DataError, match="random:blip-tiny, not over blip:"):
        train("blip-module", f"encoder={blip}", "start=tuned")


def test_an_encoder_of_pairs_can_be_scored_by_its_name(train: Trains, benchmark: Path) -> None:
    folder = train("blip-zero-shot", BLIP, "epochs=0").folder
    by_name = {row.key()[:2]: row.value for row in scores_of("random:blip-tiny", read_dataset(benchmark))}
    for row in read_table(folder / "scores.jsonl", Score):
        assert by_name[row.key()[:2]] == pytest.approx(row.value, abs=1e-4)
    assert len({*by_name.values()}) > 100


@pytest.mark.parametrize("every", [False, True])
def test_more_images_in_order_than_there_are_positions_are_one_sentence(every: bool) -> None:
    images = tuple(f"img{number}" for number in range(11))
    album, film = (EvalQuery(f"q{ordered}", "s", (), images, (0,), ordered, None) for ordered in (False, True))
    with pytest.raises(DataError, match="qTrue asks about 11 images in order, and 10 positions are learned"):
        check_positions([film], 10, every)
    check_positions([film], 11, every)
    check_positions([album], 10, False)
    with pytest.raises(DataError, match="qFalse asks about 11 images in order"):
        check_positions([album], 10, True)
