"""Kinds of artifacts and of image sets, and the folders of a project, each named once."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SetKind:
    """A kind of image sets.

    Attributes:
        ordered: their images stand in the order of time.
        links: a query links to any number of their images, or to none, where others have one target.
    """

    ordered: bool = False
    links: bool = False


SET_KINDS: dict[str, SetKind] = {"video": SetKind(ordered=True), "photos": SetKind(), "document": SetKind(links=True)}
"""Frames of a video, photos, and images of a document, by the name in `ImageSet.kind`. A gallery is a set of kind `photos`: its size
decides that it is one, so the photos of a release and of `ctxr build-sets` need no other kind. Keyframes get theirs from their reader."""

IMAGE_SETS = "image_sets"
"""Kind of what `ctxr build-sets`, `filter` and `rebuild` write."""

TASKS = "tasks"
"""Kind of what `ctxr export-tasks` writes, and the folder of the project that holds one artifact for each task."""

JUDGMENTS = "judgments"
"""Kind of what `ctxr import-answers` writes, and its folder in the project."""

DATASET = "dataset"
"""Kind of what `ctxr aggregate` and `ctxr revise-labels` write."""

PLAN = "plan"
"""Kind of what `ctxr plan` writes."""

EXPORT = "export"
"""Kind of what `ctxr export` writes."""

REGION_FEATURES = "regions"
"""Kind of what `ctxr regions` writes."""

RUN = "run"
"""Kind of what `ctxr train` and `ctxr listen` write, and of a run as the origin of scores."""

RUNS = "runs"
"""Folder of the project that holds one artifact for each run."""

MODEL = "model"
"""Kind of a published model as the origin of scores."""

CLASSIFIER = "classifier"
"""Kind of a trained entailment classifier."""

CLASSIFIERS = "classifiers"
"""Folder of the project that holds one artifact for each trained classifier."""

EVALUATION = "results"
"""Kind of what `ctxr eval` writes of runs."""

CLASSIFIER_RESULTS = "classifier_results"
"""Kind of what `ctxr eval` writes of classifiers."""

PAIRS = "pairs"
"""Kind of what `ctxr pairs` writes, and its folder in the project."""

RELEASE = "release"
"""Kind of what others published, as the origin of a dataset: a folder or file without a manifest."""

PICTURES = "pictures"
"""Kind of the pictures of a release, as the origin of what looked at them."""

REVISE_LABELS = "revise-labels"
"""Verb in the manifest of revised labels."""

SERVED = ("local", "prolific")
"""Platforms whose workers come to our own pages."""

TRAINED = {RUNS: RUN, CLASSIFIERS: CLASSIFIER}
"""Folders of a project with trained models, and their kinds."""
