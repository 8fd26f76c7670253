"""Whether a published release is whole: `ctxr doctor RELEASE` looks at it, because no manifest says what should be there."""

from collections.abc import Iterator

from ctxr.data.dataset import Dataset
from ctxr.pipelines.check_artifact import Check

CURE = "put the picture back as it was published; the commands treat such a set as one without pictures, or refuse it"


def check_release(dataset: Dataset) -> Iterator[Check]:
    """Sets that lack pictures where others have theirs, and what the reader left out or took on trust."""
    there = {one.id: [bool(dataset.images[name].path) for name in one.images] for one in dataset.sets}
    lacking = [name for name, found in there.items() if not all(found)]
    whole = len(there) - len(lacking)
    if not any(any(found) for found in there.values()):
        yield Check("pictures", "note", "none here: nothing can be trained on or scored by a model")
    elif lacking:
        said = why_lost(dataset, lacking[0]) or f"the first is {lacking[0]}"
        detail = f"{len(lacking)} of {len(there)} sets lack pictures that can be read: {said}"
        yield Check("pictures", "problem", detail, CURE)
    else:
        yield Check("pictures", "ok", f"all of {whole} sets are here and can be opened")
    for note in dataset.notes:
        yield Check("release", "note", note)


def why_lost(dataset: Dataset, image_set: str) -> str:
    """What the reader said of a set that lacks pictures; "" if nothing."""
    return next((note for note in dataset.notes if image_set in note), "")
