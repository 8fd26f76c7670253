"""Whether a published release is whole: `ctxr doctor RELEASE` looks at it, because no manifest says what should be there."""

from collections.abc import Iterator

from ctxr.data.dataset import Dataset
from ctxr.data.images import read_image
from ctxr.pipelines.check_artifact import Check, summary
from ctxr.pipelines.decoding import troubles
from ctxr.pipelines.talk import Talk

CURE = "put the picture back as it was published; the commands treat such a set as one without pictures, or refuse it"


DECODE = "put them back as they were published; the commands stop at a picture that cannot be decoded"


def check_release(dataset: Dataset, talk: Talk) -> Iterator[Check]:
    """Sets that lack pictures where others have theirs, pictures that cannot be decoded, and what the reader left out or took on
    trust."""
    there = {one.id: [bool(dataset.images[name].path) for name in one.images] for one in dataset.sets}
    lacking = [name for name, found in there.items() if not all(found)]
    if not any(any(found) for found in there.values()):
        yield Check("pictures", "note", "none here: nothing can be trained on or scored by a model")
    else:
        if lacking:
            said = why_lost(dataset, lacking[0]) or f"the first is {lacking[0]}"
            detail = f"{len(lacking)} of {len(there)} sets lack pictures that can be read: {said}"
            yield Check("pictures", "problem", detail, CURE)
        broken = undecodable(dataset, talk)
        if broken or not lacking:
            yield summary("pictures", broken, f"all of {len(there)} sets are here, every picture decoded", DECODE)
    for note in dataset.notes:
        yield Check("release", "note", note)


def undecodable(dataset: Dataset, talk: Talk) -> list[str]:
    """What is wrong with pictures that are there, a sentence each: all are decoded to their last row of pixels."""
    files = {image.path: file for image in dataset.images.values() if (file := dataset.picture(image)) is not None}
    broken = []
    with talk.progress("decoding pictures", len(files)) as task:
        for name, trouble in zip(files, troubles(read_image, list(files.values())), strict=True):
            # a whole path would not fit beside the others, and its end is what tells pictures apart
            broken += [] if trouble is None else [trouble.message.replace(str(files[name]), name)]
            task.advance()
    return broken


def why_lost(dataset: Dataset, image_set: str) -> str:
    """What the reader said of a set that lacks pictures; "" if nothing."""
    return next((note for note in dataset.notes if image_set in note), "")
