"""Our retrieval figures are those of `eccv_caption` on its own ground truth, where that package is installed."""

import pytest

from scripts.check_eccv import compare, folder, read_truth


@pytest.mark.prove
@pytest.mark.filterwarnings("ignore:failed to import `(ujson|tqdm)`")
@pytest.mark.parametrize("quality", [0.0, 1.0], ids=["random", "good"])
def test_figures_equal_those_of_the_package(quality: float) -> None:
    data = folder()
    if data is None:
        pytest.skip("eccv_caption is not installed: pip install --target FOLDER eccv_caption, and PYTHONPATH=FOLDER")
    truth = read_truth(data)
    assert (len(truth.images), len(truth.captions)) == (5000, 25000)
    assert [len(truth.right["eccv", way]) for way in ("i2t", "t2i")] == [1261, 1332]
    for name, ours, theirs in compare(truth, quality, 1, coco_1k=False):
        assert ours == pytest.approx(theirs, abs=1e-9), name
