"""ctxr: from raw videos and photos to a validated benchmark for contextual image retrieval.

`__all__` is what may be used from Python (docs/python.md); everything else is private. A name is imported when it is first used.
"""

from importlib import import_module

from ctxr.version import __version__

_NAMES = {
    "ctxr.api.benchmark": ("load", "Benchmark", "Example"),
    "ctxr.api.evaluation": ("evaluate", "Results"),
    "ctxr.api.agreement": ("agreement",),
    "ctxr.errors": ("CtxrError", "UsageError", "DataError", "UnfinishedError", "CtxrWarning"),
    "ctxr.api.verbs": (
        "build_sets", "filter", "merge", "plan", "export_tasks", "import_answers", "aggregate", "workers", "report", "export", "push",
        "pull", "rebuild", "verify", "build_documents", "pairs", "stats", "shortcuts", "train", "regions", "listen", "revise_labels",
        "eval", "status", "diff", "reproduce", "doctor",
    ),
}  # fmt: skip
"""By module; of the verbs, those that end by themselves."""

__all__ = ["__version__", *(name for names in _NAMES.values() for name in names)]


def __getattr__(name: str) -> object:
    module = next((module for module, names in _NAMES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module 'ctxr' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(module), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
