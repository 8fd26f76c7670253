"""Cheap looks at pictures."""

import cv2
import numpy as np
import pytest

from ctxr.media.images import decode_jpeg, encode_jpeg, look_print, sharpness


def picture(seed: int) -> np.ndarray:
    coarse = np.random.default_rng(seed).integers(0, 255, (9, 12, 3)).astype(np.uint8)
    return np.asarray(cv2.resize(coarse, (120, 90), interpolation=cv2.INTER_CUBIC))


def test_blurring_takes_sharpness_away() -> None:
    sharp = np.random.default_rng(0).integers(0, 255, (40, 50, 3)).astype(np.uint8)
    assert sharpness(np.asarray(cv2.blur(sharp, (5, 5)))) < sharpness(sharp) / 10
    assert sharpness(np.full((40, 50, 3), 90, np.uint8)) == 0


def test_the_distance_of_prints_is_the_colour_difference() -> None:
    black, white = np.zeros((30, 40, 3), np.uint8), np.full((50, 20, 3), 255, np.uint8)
    assert np.linalg.norm(look_print(black) - look_print(white)) == pytest.approx(1.0)


def test_a_copy_encoded_and_scaled_again_is_near_and_another_picture_is_not() -> None:
    one = picture(1)
    again = decode_jpeg(encode_jpeg(np.asarray(cv2.resize(one, (240, 180), interpolation=cv2.INTER_LINEAR))))
    assert np.linalg.norm(look_print(one) - look_print(again)) < 0.02
    assert np.linalg.norm(look_print(one) - look_print(picture(2))) > 0.1
