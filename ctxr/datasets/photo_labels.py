"""The photos that PhotoChat asks people to talk about, by labels of Open Images (section 3.1; the appendix has a table of them)."""

import csv
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from ctxr.datasets.readers.text_files import read_utf8
from ctxr.errors import DataError
from ctxr.store.records import ObjectLabels

_LABELS = {
    "people": "Woman, Man, Girl, Boy, Human body, Face",
    "food": "Bagel, Baked goods, Beer, Bread, Burrito, Cake, Candy, Cheese, Cocktail, Coffee, Cookie, Croissant, Dessert, Doughnut, Drink,"
    " Fast food, French fries, Guacamole, Hamburger, Hot dog, Ice cream, Juice, Milk, Pancake, Pasta, Pizza, Popcorn, Salad, Sandwich,"
    " Seafood, Snack, Taco, Tart, Tea, Waffle, Wine",
    "animals": "Animal",
    "products": "Alarm clock, Backpack, Banjo, Bed, Belt, Bicycle, Blender, Calculator, Camera, Computer keyboard, Computer mouse,"
    " Curtain, Dress, Earrings, Fashion accessory, Food processor, Guitar, Hair dryer, Hair spray, Harmonica, High heels, Humidifier,"
    " Jacket, Jeans, Jug, Mixing bowl, Necklace, Nightstand, Oboe, Oven, Paper cutter, Pencil case, Perfume, Personal care, Pillow,"
    " Pizza cutter, Pressure cooker, Printer, Refrigerator, Skateboard, Slow cooker, Teapot, Teddy bear, Vase, Wall clock",
}

THEMES = {label: theme for theme, labels in _LABELS.items() for label in labels.split(", ")}
"""The theme of each label: 88, since the 89 of the paper count Blender twice."""


_SIDES = ("XMin", "XMax", "YMin", "YMax")


def themes_of(labels: Iterable[str]) -> tuple[str, ...]:
    """The themes of labels, in the order of the paper: people, food, animals, products."""
    found = {THEMES.get(label) for label in labels}
    return tuple(theme for theme in _LABELS if theme in found)


def is_boxes(path: Path) -> bool:
    """Whether a file is a CSV of boxes of Open Images, by its head."""
    with path.open("rb") as file:
        return file.readline(64).removeprefix(b"\xef\xbb\xbf").startswith(b"ImageID,")


def labels_of_boxes(path: Path, images: Iterable[str]) -> tuple[dict[str, ObjectLabels], set[str]]:
    """Labels of images by boxes of Open Images, and the images to talk about: with a label of a theme, people only as main objects.

    What `/m/…` means is read from `*class-descriptions*.csv` beside. Raises DataError naming the line, and where no image is chosen.
    """
    files = sorted(path.parent.glob("*class-descriptions*.csv"))
    words = {row[0]: row[1] for file in files for row in csv.reader(read_utf8(file).splitlines()) if len(row) > 1}
    names = {image: PurePosixPath(image).stem for image in images}
    labels, chosen = {name: dict[str, None]() for name in names.values()}, set[str]()
    with path.open(encoding="utf-8-sig", newline="") as lines:
        rows = csv.DictReader(lines, restval="")
        try:
            if lacking := sorted({"ImageID", "LabelName", *_SIDES} - {*(rows.fieldnames or ())}):
                raise ValueError(f"there is no column {', '.join(lacking)}")
            for row in rows:
                sides = [float(row[column]) for column in _SIDES]
                if not all(0 <= side <= 1 for side in sides):
                    raise ValueError(f"{sides} leaves 0..1")
                label, name = words.get(row["LabelName"], row["LabelName"]), row["ImageID"]
                if name in labels:
                    if label.startswith("/m/"):
                        raise ValueError(f"{label} has no name")
                    if label != "Human body":  # PhotoChat says Face, Hair
                        label = label.removeprefix("Human ").capitalize()
                    labels[name][label] = None
                    if label in THEMES and (THEMES[label] != "people" or _is_main(*sides)):
                        chosen.add(name)
        except (ValueError, csv.Error) as error:
            hint = "ImageID,LabelName,XMin,XMax,YMin,YMax, with class-descriptions-boxable.csv of Open Images beside it"
            raise DataError(f"{path}:{rows.line_num} is not a box: {error}", hint=hint) from error
    if not chosen:
        what = f"{path} has no photo of this dataset to talk about"
        raise DataError(what, hint="photos are called as in Open Images: ID.jpg")
    found = {image: ObjectLabels(image, tuple(labels[name])) for image, name in names.items() if labels[name]}
    return found, {image for image, name in names.items() if name in chosen}


def _is_main(left: float, right: float, top: float, bottom: float) -> bool:
    """Whether the centre of a box is more than 0.1 from the border and no side below 0.3 of the image's (section 3.1)."""
    sides = (left, right), (top, bottom)
    return all(0.1 < round((start + end) / 2, 6) < 0.9 and round(end - start, 6) >= 0.3 for start, end in sides)
