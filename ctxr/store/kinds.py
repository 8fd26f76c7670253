"""Kinds of artifacts and the folders of a project, each named once."""

SERVED = ("local", "prolific")
"""Backends whose workers come to our own pages."""


IMAGE_SETS = "image_sets"


CLASSIFIERS = "classifiers"
"""Folder of a project that holds a folder for each trained classifier."""

CLASSIFIER = "classifier"
"""Of their artifacts."""


RESULT = "classifier_results"
"""Kind of the artifact."""


EVALUATION = "results"


RUNS = "runs"
"""Folder of a project that holds a folder for each run."""

RUN = "run"
MODEL = "model"
"""Kinds of origin beside `scores`, a file: what `ctxr train` made, and a model scored as it is."""


REVISE_LABELS = "revise-labels"
