"""Photos to talk about, chosen by boxes of Open Images."""

from pathlib import Path

import pytest

from ctxr.datasets.photo_labels import THEMES, labels_of_boxes, themes_of
from ctxr.errors import DataError

HEAD = "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,IsDepiction,IsInside"
WHOLE, MARGIN, SMALL = (0.1, 0.9, 0.1, 0.9), (0.0, 0.2, 0.1, 0.9), (0.4, 0.69, 0.4, 0.9)
LEAST = (0.4, 0.7, 0.4, 0.9)  # a side of exactly 0.3


def boxes(folder: Path, *rows: tuple[str, str, tuple[float, ...]], head: str = HEAD) -> Path:
    lines = [f"{image},xclick,{label},1,{','.join(map(str, box))},0,0,0,0,0" for image, label, box in rows]
    file = folder / "boxes.csv"
    file.write_text("\n".join([head, *lines]) + "\n")
    (folder / "class-descriptions-boxable.csv").write_text("/m/1,Human face\n/m/2,Bagel\n/m/3,Plate\n/m/4,Human body\n")
    return file


def test_people_count_as_main_objects_alone_and_everything_else_anywhere(tmp_path: Path) -> None:
    kinds = {
        "a": ("/m/1", WHOLE),
        "b": ("/m/1", MARGIN),
        "c": ("/m/4", SMALL),
        "d": ("/m/2", SMALL),
        "e": ("/m/3", WHOLE),
    }
    rows = [(image, label, box) for image, (label, box) in kinds.items()]
    rows += [("d", "/m/1", MARGIN), ("d", "/m/2", WHOLE), ("f", "Man", LEAST), ("other", "Man", WHOLE)]
    labels, chosen = labels_of_boxes(boxes(tmp_path, *rows), [f"album/{name}.jpg" for name in "abcdefg"])
    assert chosen == {"album/a.jpg", "album/d.jpg", "album/f.jpg"}
    assert {image[6]: row.labels for image, row in labels.items()} == {
        "a": ("Face",), "b": ("Face",), "c": ("Human body",), "d": ("Bagel", "Face"), "e": ("Plate",), "f": ("Man",),
    }  # fmt: skip
    assert all(row.id == image for image, row in labels.items())


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (("boxes", "/m/2", "/m/9"), r"boxes\.csv:3 .*/m/9"),
        (("boxes", "0.4", "left"), r"boxes\.csv:3 .*left"),
        (("boxes", "0.4,0.69", "-0.1,0.69"), r"boxes\.csv:3 .*-0\.1"),
        (("boxes", "0.4,0.69", "0.4,1.01"), r"boxes\.csv:3 .*1\.01"),
        (("boxes", "0.4,0.69", "nan,0.69"), r"boxes\.csv:3 .*nan"),
        (("boxes", ",0.9,0.1,0.9,0,0,0,0,0", ""), r"boxes\.csv:2 .*"),
        (("boxes", "XMin", "X"), r"boxes\.csv:1 .*XMin"),
        (("class-descriptions-boxable", "Bagel", "Plate"), r"boxes\.csv"),
    ],
)
def test_what_is_no_box_is_named_by_its_line(change: tuple[str, str, str], named: str, tmp_path: Path) -> None:
    file = boxes(tmp_path, ("a", "/m/3", WHOLE), ("a", "/m/2", SMALL))
    edited = tmp_path / f"{change[0]}.csv"
    edited.write_text(edited.read_text().replace(*change[1:]))
    with pytest.raises(DataError, match=named):
        labels_of_boxes(file, ["a"])


def test_labels_of_the_paper_are_88_in_four_themes() -> None:
    assert (len(THEMES), [*dict.fromkeys(THEMES.values())]) == (88, ["people", "food", "animals", "products"])
    assert themes_of(["Tea", "Plate", "Animal"]) == ("food", "animals")
