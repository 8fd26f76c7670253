"""Pictures: upright, canonical, and refused in one sentence when they are none."""

import struct
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from ctxr.errors import DataError
from ctxr.media.images import (
    decode_jpeg,
    encode_jpeg,
    image_size,
    look_print,
    read_image,
    read_photo,
    sharpness,
    thumbnail,
)


def gradient(height: int = 24, width: int = 40) -> "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]":
    rows, columns = np.mgrid[0:height, 0:width]
    return np.stack([rows * 9, columns * 5, rows + columns], -1).astype(np.uint8)


def test_a_saved_frame_reads_back_close_and_equal_pixels_give_equal_bytes() -> None:
    rgb = gradient()
    assert encode_jpeg(rgb) == encode_jpeg(rgb.copy())
    assert np.abs(decode_jpeg(encode_jpeg(rgb)).astype(int) - rgb).mean() < 3


@pytest.mark.parametrize("name", ["p.png", "p.tiff", "p.webp"])
def test_a_photo_lying_on_its_side_comes_out_upright(tmp_path: Path, name: str) -> None:
    picture = Image.fromarray(gradient())
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees clockwise to see it upright
    picture.save(tmp_path / name, exif=exif, lossless=True)
    assert read_image(tmp_path / name).shape == (40, 24, 3)
    assert image_size(tmp_path / name) == (24, 40)
    assert np.array_equal(read_image(tmp_path / name), np.rot90(gradient(), -1))


def test_grey_palette_and_transparent_pictures_become_rgb_on_white(tmp_path: Path) -> None:
    colours: dict[str, tuple[Any, int]] = {"RGBA": ((0, 0, 0, 0), 255), "L": (7, 7), "P": (0, 0)}
    for mode, (colour, level) in colours.items():
        Image.new(mode, (5, 3), colour).save(tmp_path / f"{mode}.png")
        assert read_image(tmp_path / f"{mode}.png").tolist() == [[[level] * 3] * 5] * 3


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "is empty"), (b"hello", "a readable picture"), (encode_jpeg(gradient())[:-200], "not a readable")],
    ids=["empty", "text", "truncated"],
)
def test_a_file_that_is_no_picture_is_one_sentence(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "p.jpg").write_bytes(content)
    for read in (read_image, lambda path: thumbnail(path, 240)):
        with pytest.raises(DataError, match=message):
            read(tmp_path / "p.jpg")


def test_an_absurdly_large_picture_is_refused_before_it_is_read(tmp_path: Path) -> None:
    content = BytesIO()
    Image.new("1", (1, 1)).save(content, "PNG")
    header = b"IHDR" + struct.pack(">II", 30_000, 30_000) + content.getvalue()[24:29]
    png = content.getvalue()[:12] + header + struct.pack(">I", zlib.crc32(header)) + content.getvalue()[33:]
    (tmp_path / "p.png").write_bytes(png)
    with pytest.raises(DataError, match="too large"):
        read_image(tmp_path / "p.png")


def test_a_thumbnail_is_small_upright_and_the_same_again(tmp_path: Path) -> None:
    wide = np.zeros((600, 1200, 3), np.uint8)
    wide[:, :600] = (255, 0, 0)
    exif = Image.Exif()
    exif[0x0112] = 6  # a camera held on its side: to be turned clockwise
    Image.fromarray(wide).save(tmp_path / "turned.jpg", exif=exif)
    content = thumbnail(tmp_path / "turned.jpg", 240)
    small = Image.open(BytesIO(content))
    assert small.size == (120, 240)
    top, bottom = np.asarray(small)[20, 60], np.asarray(small)[220, 60]
    assert top[0] > 240
    assert bottom[0] < 15
    assert thumbnail(tmp_path / "turned.jpg", 240) == content


@pytest.mark.parametrize("size", [(1280, 720), (640, 360), (480, 480), (300, 900), (250, 100), (200, 150)])
def test_a_tight_thumbnail_looks_like_one_of_the_whole_picture(tmp_path: Path, size: tuple[int, int]) -> None:
    drawn = np.random.default_rng(0).integers(0, 255, (9, 12, 3)).astype(np.uint8)
    Image.fromarray(cv2.resize(drawn, size, interpolation=cv2.INTER_CUBIC)).save(tmp_path / "p.jpg", quality=95)
    whole, tight = (Image.open(BytesIO(thumbnail(tmp_path / "p.jpg", 240, tight=one))) for one in (False, True))
    assert whole.size == tight.size
    assert np.abs(np.asarray(whole, float) - np.asarray(tight, float)).mean() < 1.5


def test_a_thumbnail_of_a_small_picture_is_not_enlarged(tmp_path: Path) -> None:
    Image.new("RGBA", (30, 20), (0, 0, 0, 0)).save(tmp_path / "small.png")
    small = Image.open(BytesIO(thumbnail(tmp_path / "small.png", 240)))
    assert small.size == (30, 20)
    assert np.asarray(small).min() > 250


def picture(seed: int) -> np.ndarray:
    coarse = np.random.default_rng(seed).integers(0, 255, (9, 12, 3)).astype(np.uint8)
    return np.asarray(cv2.resize(coarse, (120, 90), interpolation=cv2.INTER_CUBIC))


def test_blurring_takes_sharpness_away() -> None:
    sharp = np.random.default_rng(0).integers(0, 255, (40, 50, 3)).astype(np.uint8)
    assert sharpness(np.asarray(cv2.blur(sharp, (5, 5)))) < sharpness(sharp) / 10
    assert sharpness(np.full((40, 50, 3), 90, np.uint8)) == 0


def test_prints_are_as_far_apart_as_colours_and_a_copy_encoded_and_scaled_again_is_near() -> None:
    black, white = np.zeros((30, 40, 3), np.uint8), np.full((50, 20, 3), 255, np.uint8)
    assert np.linalg.norm(look_print(black) - look_print(white)) == pytest.approx(1.0)
    one = picture(1)
    again = decode_jpeg(encode_jpeg(np.asarray(cv2.resize(one, (240, 180), interpolation=cv2.INTER_LINEAR))))
    assert np.linalg.norm(look_print(one) - look_print(again)) < 0.02
    assert np.linalg.norm(look_print(one) - look_print(picture(2))) > 0.1


def noise(height: int = 240, width: int = 320) -> "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]":
    rough = np.random.default_rng(3).integers(0, 256, (height // 8, width // 8, 3), np.uint8)
    return np.asarray(cv2.resize(rough, (width, height)), np.uint8)


@pytest.mark.parametrize(
    "options",
    [{}, {"quality": 100, "subsampling": 0}, {"restart_marker_blocks": 4}, {"format": "MPO"}],
)
def test_a_whole_photo_passes_and_one_with_a_hole_does_not(tmp_path: Path, options: dict[str, Any]) -> None:
    file, picture = tmp_path / "photo.jpg", Image.fromarray(noise())
    picture.save(file, **{"format": "JPEG"} | options)
    read_photo(file)
    content = file.read_bytes()
    file.write_bytes(content + b"a maker's note behind the end")
    read_photo(file)
    middle = len(content) // 2
    file.write_bytes(content[:middle] + content[middle + 600 :])
    read_image(file)  # says nothing
    with pytest.raises(DataError, match="damaged"):
        read_photo(file)


def test_other_kinds_of_pictures_pass_and_animated_ones_do_not(tmp_path: Path) -> None:
    first, *others = (Image.new("RGB", (40, 30), colour) for colour in ("red", "green", "blue"))
    for name in ("p.png", "p.webp", "p.tiff", "p.bmp"):
        first.save(tmp_path / name)
        read_photo(tmp_path / name)
    first.save(tmp_path / "progressive.jpg", progressive=True)
    read_photo(tmp_path / "progressive.jpg")
    first.convert("CMYK").save(tmp_path / "print.jpg")
    read_photo(tmp_path / "print.jpg")
    for name, kind in (("moving.png", "PNG"), ("moving.webp", "WEBP"), ("moving.jpg", "GIF")):
        first.save(tmp_path / name, kind, save_all=True, append_images=others)
        with pytest.raises(DataError, match="of 3 frames"):
            read_photo(tmp_path / name)
