"""`ctxr stats` on artifacts that were really built: embeddings of the ledger, and the same video in two splits."""

from pathlib import Path

import pytest

from ctxr.datasets.open import read_dataset
from ctxr.engine.progress import Silent
from ctxr.media.images import read_image
from ctxr.models.dataset_vectors import vectors_of
from ctxr.models.encoders import load_encoder
from ctxr.models.picture_vectors import distances_of
from ctxr.pipelines.curation.build_sets import run as build
from ctxr.pipelines.curation.config import BuildSets
from ctxr.pipelines.inspection.config import Stats
from ctxr.pipelines.inspection.stats import run
from tests.pipelines.conftest import THRESHOLD


@pytest.fixture(scope="module")
def built(footage: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sets of three videos and an album; clip2 is a copy of clip1, and is on another side."""
    folder = tmp_path_factory.mktemp("leaky")
    videos = folder / "videos"
    videos.mkdir()
    for name, source in (("clip0", "clip0"), ("clip1", "clip1"), ("clip2", "clip1")):
        (videos / f"{name}.mp4").write_bytes((footage / "videos" / f"{source}.mp4").read_bytes() + name.encode())
    (folder / "splits.csv").write_text("clip0,train\nclip1,train\nclip2,test\nalbum,valid\n")
    sources = (str(videos), str(footage / "photos" / "album"))
    out = folder / "sets"
    options = {"encoder": "ctxr-tiny", "threshold": float(THRESHOLD), "device": "cpu"}
    build(BuildSets(sources=sources, out=out, splits=folder / "splits.csv", **options))  # type: ignore[arg-type]
    return out


def test_embeddings_belong_to_their_images(built: Path) -> None:
    dataset = read_dataset(built)
    vectors = vectors_of(dataset, None, "cpu", Silent())
    assert vectors is not None
    assert vectors.rows.keys() == dataset.images.keys()
    again = distances_of(dataset, vectors)
    for image_set in dataset.sets:
        assert again[image_set.id] == pytest.approx((image_set.mean_distance, image_set.closest), abs=2e-3)
    names = sorted(dataset.images)[::7]
    pictures = [read_image(file) for name in names if (file := dataset.picture(dataset.images[name])) is not None]
    fresh = load_encoder("ctxr-tiny", "cpu").encode_images(pictures)
    alike = (fresh * vectors.matrix[[vectors.rows[name] for name in names]]).sum(1)
    # the ledger's are of decoded frames, these of the saved JPEG
    assert alike.min() > 0.99


def test_a_copied_video_on_another_side_leaks_by_file_embedding_and_look(built: Path) -> None:
    table = run(Stats(dataset=built)).tables["leakage"]
    rows = {(row[0].split(" (")[0].split(" within")[0], row[1]): row[2:] for row in table.rows}
    images = rows["same file", "train – test"][1]
    assert rows["source video or album", "train – test"][0] == 0
    for what in ("same file", "embedding", "look"):
        assert rows[what, "train – test"][:2] == (images, images)
        assert rows[what, "train – valid"][0] == 0
    assert any("clip1/img" in line and "clip2/img" in line for line in table.examples)


def test_a_damaged_picture_is_left_out_and_said(built: Path) -> None:
    said: list[str] = []

    class Listening(Silent):
        def warn(self, text: str) -> None:
            said.append(text)

    broken = sorted((built / "images").rglob("img*.jpg"))[:2]
    before = [file.read_bytes() for file in broken]
    try:
        for file in broken:
            file.write_bytes(b"")
        run(Stats(dataset=built), Listening())
    finally:
        for file, content in zip(broken, before, strict=True):
            file.write_bytes(content)
    (line,) = said
    assert line.endswith("is empty, and 1 more: left out")
