"""A small release in the published layout, for the tests of readers, statistics and audits."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

TRAIN = {
    "MSR-VTT-videoTrain_video1-shot0_0": {"0": "A red hat.", "5": "The hand is gone now."},
    "open-images-12_abc": {"9": "Two dogs, one of them blue."},
}
VALID = {"MSR-VTT-videoTest_video7-shot1_0": {"3": "No face at all. It is dark.", "4": "Her eyes begin to close."}}
TEST = {"MSR-VTT-videoTest_video7-shot2_1": ["The last frame.", "A blurred hand."]}


def write_release(
    folder: Path,
    train: object = TRAIN,
    valid: object = VALID,
    test: object = TEST,
) -> Path:
    """The three files of descriptions; None leaves one out."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("train_data", train), ("valid_data", valid), ("test_data_unlabeled", test)):
        if content is not None:
            (folder / f"{name}.json").write_text(json.dumps(content, indent=1), encoding="utf-8")
    return folder


def draw(file: Path, seed: int, side: int = 24) -> Path:
    """A small picture of soft coloured patches; another seed gives another picture."""
    file.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 255, (4, 4, 3)).astype(np.uint8)
    Image.fromarray(pixels).resize((side, side), Image.Resampling.BICUBIC).save(file)
    return file


def draw_sets(folder: Path, names: Sequence[str], numbers: Sequence[int] = range(8, 18)) -> None:
    """Pictures of sets, `image-sets/<set>/imgN.jpg`; 8 to 17, so that orders as numbers and as strings differ."""
    for place, name in enumerate(names):
        for number in numbers:
            draw(folder / "image-sets" / name / f"img{number}.jpg", 100 * place + number)


def annotation_yaml(rows: Sequence[tuple[str, int, str]]) -> str:
    """Rows (set, index, codes) in the layout of the released YAML, in their order; rows of one set stand together."""
    grouped: dict[str, list[tuple[int, str]]] = {}
    for name, index, codes in rows:
        grouped.setdefault(name, []).append((index, codes))
    lines = []
    for name, inner in grouped.items():
        lines.append(f'"{name}":')
        for index, codes in inner:
            fields: Mapping[str, str] = {"description": f"Text {name} {index}.", "annotation": codes}
            lines.append(f'  "{index}":')
            lines += [f'    "{key}": "{value}"' for key, value in fields.items()]
    return "\n".join(lines) + "\n"
