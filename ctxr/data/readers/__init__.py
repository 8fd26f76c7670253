"""Readers: whatever a benchmark was published as becomes a `ctxr.data.dataset.Dataset`."""

from ctxr.data.readers.recognise import read_dataset

__all__ = ["read_dataset"]
