"""Photos dealt to splits so that each has its share of themes, by boxes of Open Images."""

from collections import Counter
from pathlib import Path

import numpy as np
from PIL import Image as Pillow

from ctxr.datasets.open import read_dataset
from ctxr.synthetic.world.drawing import render
from ctxr.synthetic.world.footage import sample_album
from tests.datasets.test_photo_labels import WHOLE, boxes
from tests.pipelines.curation.test_build_sets import build


def test_photos_of_an_album_are_dealt_by_theme(tmp_path: Path) -> None:
    album = tmp_path / "album"
    album.mkdir()
    photos = [one for one in sample_album(np.random.default_rng(3), 120) if not one.copy]
    for number, one in enumerate(photos):
        Pillow.fromarray(render(one.scene, one.width // 4, one.height // 4)).save(album / f"p{number:03}.png")
    names = [f"p{number:03}" for number in range(len(photos))]
    file = boxes(tmp_path, *((name, "Bagel" if int(name[1:]) % 5 else "Man", WHOLE) for name in names))
    build(album, tmp_path / "sets", sources=(str(album),), splits=file, sample="all", set_size=3, keep_leaks=True)
    dataset = read_dataset(tmp_path / "sets")
    found = Counter((one.group, int(one.id[-7:-4]) % 5 == 0) for one in dataset.images.values())
    for split in ("valid", "test"):
        assert found[f"album/{split}", False] in (8, 9)
        assert found[f"album/{split}", True] in (2, 3)
