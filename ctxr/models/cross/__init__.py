"""Cross-encoders: models that look at an image and a text together (specs A0.2, 6)."""

from ctxr.models.cross.sources import CrossSource, load_cross

__all__ = ["CrossSource", "load_cross"]
