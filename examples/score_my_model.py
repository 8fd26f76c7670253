"""Evaluate a model of your own beside chance and an encoder, on the dataset of the project in work/."""

from typing import Any

import numpy as np

import ctxr

COLOURS = {"red": (220, 40, 40), "green": (40, 160, 60), "blue": (50, 80, 220), "yellow": (230, 210, 60)}


def score(texts: list[str], pictures: list[Any]) -> list[Any]:
    """How much of each picture has the colours that a text names: [texts, pictures]."""
    pixels = np.array([np.asarray(picture.resize((32, 32)), float).reshape(-1, 3) for picture in pictures])
    shares = {name: (abs(pixels - rgb).max(axis=2) < 60).mean(axis=1) for name, rgb in COLOURS.items()}
    return [sum((shares[name] for name in COLOURS if name in text), np.zeros(len(pictures))) for text in texts]


benchmark = ctxr.load("work")["valid"]
chance = np.zeros((len(benchmark), max(len(one.images) for one in benchmark)))
results = ctxr.evaluate(benchmark, {"colours": score, "chance": chance}, "ctxr-tiny")

print(results)
print(results.compare())
for figure in results.figures:
    if (figure.measure, figure.part) == ("accuracy", "all"):
        print(figure.run, figure.interval.value, figure.interval.low, figure.interval.high)
