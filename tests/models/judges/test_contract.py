"""What every judge promises, whatever it is made of."""

import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ctxr.engine.options import JudgeEndpointOptions
from ctxr.engine.progress import Silent
from ctxr.errors import DataError, UsageError
from ctxr.media.images import read_image
from ctxr.models.entailment.base import Claim, Judge
from ctxr.models.entailment.checkpoint import TrainedClassifier
from ctxr.models.judges.endpoint import EndpointJudge
from ctxr.models.judges.file import FileJudge
from ctxr.models.judges.nli import PAIRS, MatchingJudge, NliJudge
from ctxr.problems.entailment.judges import TOY_FOLDER
from ctxr.store.hashing import sha256_of
from tests.models.blip_folder import make_blip
from tests.models.judges.nli_folder import KINDS, make_nli
from tests.pipelines.modelling.listening.fake_server import Answer, Body, says, serving


def make_file(path: Path, seed: int = 0) -> Path:
    """Probabilities of most of the pairs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [f"picture{row % 3},caption{row},{(row + seed + 1) / 100}" for row in range(ROWS) if row % 4]
    path.write_text("\n".join(["image,caption,p", *rows]) + "\n", encoding="utf-8")
    return path


def number_of(claim: Claim) -> int:
    """Of the claim among all."""
    return int(claim.pair[1].removeprefix("caption")) if claim.pair else 0


def make_classifier(folder: Path, seed: int = 0) -> Path:
    """The toy judge, or another classifier."""
    shutil.copytree(TOY_FOLDER, folder)
    config = folder / "config.json"
    config.write_text(
        config.read_text(encoding="utf-8").replace('"epoch": ', f'"epoch": {seed or ""}'), encoding="utf-8"
    )
    return folder


def make_endpoint(folder: Path, seed: int = 0) -> Path:
    """A project that asks one model or another."""
    folder.mkdir(parents=True)
    (folder / "model").write_text(f"model-{seed}", encoding="utf-8")
    return folder


def open_endpoint(folder: Path, url: str) -> Judge:
    options = JudgeEndpointOptions(model=(folder / "model").read_text(encoding="utf-8"))
    return EndpointJudge(url, options, folder, Silent())


def answer(body: Body, number: int) -> Answer:
    """Yes and no with probabilities that follow from the claim."""
    yes = (int(sha256_of(body["messages"][-1])[:4], 16) + 1) / (2**16 + 1)
    likely = [{"token": token, "logprob": math.log(p)} for token, p in (("yes", yes), ("no", 1 - yes))]
    return says("yes", logprobs={"content": [likely[0] | {"top_logprobs": likely}]})


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(answer) as server:
        yield server.url


@dataclass(frozen=True)
class Kind:
    """How a kind of judge is made (folder, seed) and opened (and the address of a server), and which claims it answers."""

    make: Callable[[Path, int], Path]
    open: Callable[[Path, str], Judge]
    answers: Callable[[Claim], bool]


ROWS = 2 * PAIRS + 3
ALL: dict[str, Kind] = {
    **{
        f"nli {kind}": Kind(
            lambda path, seed, kind=kind: make_nli(path, kind, seed=seed),  # type: ignore[misc]
            lambda path, _: NliJudge(str(path)),
            lambda claim: bool(claim.premise),
        )
        for kind in KINDS
    },
    "itm": Kind(make_blip, lambda path, _: MatchingJudge(f"blip:{path}"), lambda claim: claim.image is not None),
    "file": Kind(make_file, lambda path, _: FileJudge(path), lambda claim: number_of(claim) % 4 > 0),
    "endpoint": Kind(make_endpoint, open_endpoint, lambda claim: bool(claim.premise or claim.image)),
    "classifier": Kind(make_classifier, lambda path, _: TrainedClassifier(path, path.name), lambda claim: True),
}


@pytest.fixture(scope="module")
def claims(tmp_path_factory: pytest.TempPathFactory) -> list[Claim]:
    """Claims about three pictures, some without a picture and some without a premise."""
    folder = tmp_path_factory.mktemp("pictures")
    files = [folder / f"{row}.png" for row in range(3)]
    for row, file in enumerate(files):
        noise = np.random.default_rng(row).integers(0, 256, (40, 50, 3), np.uint8)
        Image.fromarray(noise).save(file)
    return [
        Claim(
            "" if row % 5 == 1 else "a dog runs " * (row % 4 + 1),
            None if row % 7 == 2 else files[row % 3],
            f"a {'cat' if row % 2 else 'dog'} {'sits' * (row % 6)}",
            (f"picture{row % 3}", f"caption{row}"),
        )
        for row in range(ROWS)
    ]


@pytest.mark.parametrize("kind", ALL)
def test_probabilities_lie_within_0_and_1_and_belong_to_their_claim(
    kind: str, claims: list[Claim], tmp_path: Path, url: str
) -> None:
    own = ALL[kind]
    judge = own.open(own.make(tmp_path / "judge", 0), url)
    values = judge.probabilities(claims)
    assert (values.shape, str(values.dtype)) == ((ROWS,), "float32")
    answered = np.array([own.answers(claim) for claim in claims])
    assert (np.isnan(values) == ~answered).all()
    assert ((values[answered] >= 0) & (values[answered] <= 1)).all()
    assert np.ptp(values[answered]) > 1e-5
    order = np.random.default_rng(0).permutation(ROWS)
    np.testing.assert_allclose(judge.probabilities([claims[row] for row in order]), values[order], atol=1e-5)
    alone = [judge.probabilities([claim])[0] for claim in claims[:3]]
    np.testing.assert_allclose(alone, values[:3], atol=1e-5)
    assert judge.probabilities([]).shape == (0,)
    assert (judge.estimate(5) is None) == (kind != "endpoint")


@pytest.mark.parametrize("kind", ALL)
def test_a_judge_is_known_by_its_content_wherever_it_lies(kind: str, tmp_path: Path, url: str) -> None:
    own = ALL[kind]
    first, same, other = (
        own.open(own.make(tmp_path / place / "judge", seed), url) for place, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert first.fingerprint == same.fingerprint != other.fingerprint
    assert (first.name, first.toy) == (same.name, False)
    assert str(tmp_path) not in first.name


def test_the_matching_head_says_what_transformers_says(claims: list[Claim], tmp_path: Path) -> None:
    judge = MatchingJudge(f"blip:{make_blip(tmp_path / 'blip')}")
    model = judge.model.model
    for claim in claims[:5]:
        if claim.image is None:
            continue
        pixels = judge.preprocess([read_image(claim.image)])
        ids = judge.tokenize([claim.hypothesis])
        logits = model(pixel_values=pixels, input_ids=ids, attention_mask=(ids != 0).long()).itm_score
        assert judge.probabilities([claim])[0] == pytest.approx(float(logits.softmax(1)[0, 1]), abs=1e-5)
    assert (judge.name, judge.family, judge.trained_on) == ("itm:blip", "blip", None)


def test_an_encoder_without_a_matching_head_over_pixels_is_no_judge(tmp_path: Path) -> None:
    for model in ("ctxr-tiny", "random:uniter-tiny", f"volta:{tmp_path}", f"nli:{tmp_path}"):
        with pytest.raises(UsageError, match=model):
            MatchingJudge(model)
    folder = make_blip(tmp_path / "captions", leave_out="itm_head")
    with pytest.raises(DataError, match="itm_head"):
        MatchingJudge(f"blip:{folder}")


def test_a_picture_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    judge = MatchingJudge(f"blip:{make_blip(tmp_path / 'blip')}")
    file = tmp_path / "broken.png"
    file.write_bytes(b"none")
    with pytest.raises(DataError, match=r"broken\.png"):
        judge.probabilities([Claim("", file, "a dog")])
