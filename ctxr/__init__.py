"""ctxr: from raw videos and photos to a validated benchmark for contextual image retrieval."""

__version__ = "0.1.0"
