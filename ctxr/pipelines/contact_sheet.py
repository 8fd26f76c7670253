"""Sets as strips of pictures on one sheet, to be looked at."""

from pathlib import Path

from PIL import Image as Pillow
from PIL import ImageDraw, ImageFont

from ctxr.data.images import read_image
from ctxr.data.records import Image, ImageSet
from ctxr.data.tables import read_table

CELL = (176, 104)
"""Width and height of a picture on the sheet, in pixels."""

GAP, LABEL = 6, 26
"""Space between pictures, and height of the line above a strip."""


def write_sheet(artifact: Path, target: Path, most: int = 8) -> Path:
    """Draw at most `most` sets of the artifact, spread over its sources, as strips with time codes; returns `target`."""
    images = {image.id: image for image in read_table(artifact / "images.jsonl", Image)}
    sets = _spread(read_table(artifact / "sets.jsonl", ImageSet), most)
    widest = max((len(image_set.images) for image_set in sets), default=1)
    width = GAP + widest * (CELL[0] + GAP)
    sheet = Pillow.new("RGB", (width, GAP + len(sets) * (CELL[1] + LABEL + GAP) or LABEL), (24, 26, 30))
    draw = ImageDraw.Draw(sheet)
    small, normal = ImageFont.load_default(11), ImageFont.load_default(14)
    for line, image_set in enumerate(sets):
        top = GAP + line * (CELL[1] + LABEL + GAP)
        told = f"{image_set.id}    closest {image_set.closest:.2f}    mean {image_set.mean_distance:.2f}"
        draw.text((GAP, top + 3), told, (225, 225, 225), font=normal)
        for column, name in enumerate(image_set.images):
            left = GAP + column * (CELL[0] + GAP)
            image = images[name]
            picture = Pillow.fromarray(read_image(artifact / image.path))
            picture.thumbnail(CELL)
            place = (left + (CELL[0] - picture.width) // 2, top + LABEL + (CELL[1] - picture.height) // 2)
            sheet.paste(picture, place)
            if image.time is not None:
                code = f"{float(image.time):.2f} s"
                corner = (left + 3, top + LABEL + CELL[1] - 16)
                draw.rectangle((*corner, corner[0] + 6 * len(code) + 4, corner[1] + 14), (0, 0, 0))
                draw.text((corner[0] + 2, corner[1] + 1), code, (255, 255, 255), font=small)
    target.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(target)
    return target


def _spread(sets: list[ImageSet], most: int) -> list[ImageSet]:
    """Sets in turn from each source, so that a sheet shows something of everything."""
    by_source: dict[str, list[ImageSet]] = {}
    for image_set in sets:
        by_source.setdefault(image_set.source, []).append(image_set)
    rounds = max((len(own) for own in by_source.values()), default=0)
    return [own[turn] for turn in range(rounds) for own in by_source.values() if turn < len(own)][:most]
