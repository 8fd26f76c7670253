"""Drawn photos and invented dialogues that share them, in the released format of PhotoChat.

Labels name shapes and no colours, the sharer speaks of both: a photo with its labels can tell more than either.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ctxr.media.images import encode_jpeg
from ctxr.store.atomic import write_bytes
from ctxr.store.tables import pretty_json
from ctxr.synthetic.narratives import PLACES
from ctxr.synthetic.world.drawing import render
from ctxr.synthetic.world.language import a, noun
from ctxr.synthetic.world.predicates import Kind
from ctxr.synthetic.world.scenes import Actor, Backdrop, Scene, choose

FOLDERS = {"train": "train", "valid": "dev", "test": "test"}
"""A split of ours to its folder and file in the release."""

AGAIN = 8
"""In train every so many dialogues the photo of an earlier one is shared once more, about as often as in the release."""

_SHAPES = ("boat", "butterfly", "car", "circle", "crescent", "cross", "cup", "diamond", "flower", "house", "mushroom",
           "ring", "square", "star", "tree", "umbrella")  # fmt: skip
_COLOURS = ("red", "yellow", "green", "blue", "purple", "pink", "white", "black")
_SEEN = ("We came across {}.", "There was {} right in front of me.", "I could not stop looking at {}.", "Today it was {}.",
         "You know how much I like {}.", "I found {}!")  # fmt: skip
_ELSEWHERE = ("My neighbor has {}.", "Last week I dreamed of {}.", "It reminds me of {}.", "I am still looking for {}.")
_CHAT = ("How are you?", "Not much going on here.", "Haha, right!", "That sounds nice.", "I had a long day.", "Oh really?",
         "Tell me more.", "The weather is great.", "I am about to have lunch.", "Good to hear from you.")  # fmt: skip
_ASKS = ("Can I see it?", "I would love to see that.", "Do you have a picture?", "Show me!")
_OFFERS = ("Let me show you.", "I took a picture of it.", "Have a look at this.", "Here, see for yourself.")
_TEASES = ("You should see my garden some day.", "I will show you around when you visit.", "I never take a picture of food.",
           "Let me know when you are free.")  # fmt: skip
_AFTER = ("Wow, is that {}?", "What a picture! I see {}.")
_PEOPLE = ("brother Darwin", "sister Anna", "friend Maria", "uncle Tom")


def write_dialogues(folder: Path, counts: Mapping[str, int], seed: int) -> None:
    """Write `SPLIT/SPLIT.json` (splits: train, dev, test) and `photos/NAME.jpg`; a split whose file exists stays as it is.

    Args:
        counts: dialogues of each split, by our names: train, valid, test.
    """
    for split, count in counts.items():
        file = folder / FOLDERS[split] / f"{FOLDERS[split]}.json"
        rng, rows = np.random.default_rng((seed, *split.encode())), list[dict[str, object]]()
        photos = list[tuple[str, str, list[Actor]]]()
        for number in range(0 if file.is_file() else count):
            if split == "train" and number % AGAIN == AGAIN - 1:
                photo = photos[-AGAIN // 2]
            else:
                photos.append(photo := _photo(rng, folder / "photos", f"{split}-{number:05}"))
            name, description, actors = photo
            url = f"https://example.org/{name}.jpg"
            turns = _dialogue(rng, actors)
            rows.append({"dialogue": turns, "dialogue_id": number, "photo_description": description, "photo_url": url})
        if rows:
            write_bytes(file, pretty_json(rows))


def _photo(rng: np.random.Generator, folder: Path, name: str) -> tuple[str, str, list[Actor]]:
    """Draw a photo; its name, what describes it, and what it shows."""
    size = 2 + int(rng.random() < 0.6)
    shapes, colours = (rng.choice(names, size, replace=False).tolist() for names in (_SHAPES, _COLOURS))
    centres = np.array(PLACES)[rng.permutation(len(PLACES))[:size]] + rng.normal(0, 0.01, (size, 2))
    actors = [
        Actor(shape, shape, colour, float(rng.uniform(0.15, 0.2)), *centre)
        for shape, colour, centre in zip(shapes, colours, centres.tolist(), strict=True)
    ]
    picture = render(Scene(tuple(actors), Backdrop("stone"), 1.5), 240, 160)
    write_bytes(folder / f"{name}.jpg", encode_jpeg(picture), durable=False)
    labels = [shape.capitalize() for shape in shapes[int(rng.random() < 0.25) :]]
    person = f"The photo has your {choose(rng, _PEOPLE)}. " if rng.random() < 0.15 else ""
    return name, f"{person}Objects in the photo: {', '.join(labels)}", actors


def _dialogue(rng: np.random.Generator, actors: list[Actor]) -> list[dict[str, object]]:
    """The messages: user 0 sees the photo and shares it after five to nine turns of one or several messages each."""
    count, first = int(rng.integers(5, 10)), int(rng.integers(2))
    users = [(first + turn) % 2 for turn in range(count)]
    turns: list[list[str]] = [[] for _ in users]
    for actor in actors:  # said as a whole, by its shape or by its colour
        kind = choose(rng, (Kind(actor.shape, actor.colour), Kind(actor.shape), Kind(colour=actor.colour)), (2, 3, 3))
        told = choose(rng, [turn for turn, user in zip(turns, users, strict=True) if user == 0])
        told.append(choose(rng, _SEEN).format(a(noun(rng, kind))))
    for turn, user in zip(turns, users, strict=True):
        other = Kind(choose(rng, _SHAPES), choose(rng, _COLOURS))
        if user == 1 and rng.random() < 0.3:
            turn.append(choose(rng, _ELSEWHERE).format(a(noun(rng, other))))
        if not turn or rng.random() < 0.3:
            turn.insert(int(rng.integers(len(turn) + 1)), choose(rng, _CHAT))
        # what mostly announces a share is said elsewhere too, and so is what sounds like it
        cues = _ASKS if user == 1 else _OFFERS
        if rng.random() < (0.7 if turn is turns[-1] else 0.08):
            turn.append(choose(rng, cues))
        elif rng.random() < 0.12:
            turn.append(choose(rng, _TEASES))
    said = [(user, message, False) for user, turn in zip(users, turns, strict=True) for message in turn]
    one = choose(rng, actors)
    after = [(1, choose(rng, _AFTER).format(a(noun(rng, Kind(one.shape, one.colour)))), False)]
    after += [(int(rng.integers(2)), choose(rng, _CHAT), False) for _ in range(int(rng.integers(3)))]
    return [
        {"message": message, "share_photo": share, "user_id": user}
        for user, message, share in [*said, (0, "", True), *after]
    ]
