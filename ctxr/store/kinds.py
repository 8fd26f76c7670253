"""Kinds of artifacts and of image sets, and the folders of a project, each named once."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SetKind:
    """A kind of image sets.

    Attributes:
        ordered: their images are in the order of time.
        links: a query links to any number of images, where those of other kinds have one target.
    """

    ordered: bool = False
    links: bool = False


SET_KINDS: dict[str, SetKind] = {
    "video": SetKind(ordered=True), "photos": SetKind(), "document": SetKind(links=True), "keyframes": SetKind(ordered=True)
}  # fmt: skip
"""Kinds by the name in `ImageSet.kind`. A gallery is a large set of kind `photos`."""

# kinds of artifacts, by the command that writes them
IMAGE_SETS = "image_sets"  # build-sets, filter, rebuild
TASKS = "tasks"  # export-tasks; also the folder of the project with an artifact for each task
JUDGMENTS = "judgments"  # import-answers; also its folder in the project
DATASET = "dataset"  # aggregate, revise-labels
PLAN = "plan"
EXPORT = "export"
REGION_FEATURES = "regions"
INDEX = "index"  # search
RUN = "run"  # train, listen; also a run as the origin of scores
CLASSIFIER = "classifier"  # train
EVALUATION = "results"  # eval, of runs
CLASSIFIER_RESULTS = "classifier_results"  # eval, of classifiers
AUDIT = "revision_audit"  # revise-labels --audit
PAIRS = "pairs"  # also its folder in the project
REPRODUCED = "reproduced"  # reproduce; also its folder in the project

# kinds of origins that are not artifacts
MODEL = "model"  # a published model, of scores
RELEASE = "release"  # what others published, of a dataset: a folder or file without a manifest
PICTURES = "pictures"  # the pictures of a release, of features and vectors

RUNS = "runs"  # folder of the project with an artifact for each run
CLASSIFIERS = "classifiers"  # folder with an artifact for each trained classifier
TRAINED = {RUNS: RUN, CLASSIFIERS: CLASSIFIER}
"""Folders of a project with trained models, and their kinds."""

REVISE_LABELS = "revise-labels"
SERVED = ("local", "prolific")
"""Platforms whose workers come to our own pages."""
