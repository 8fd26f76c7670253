"""Readers: whatever a benchmark was published as becomes a `ctxr.datasets.dataset.Dataset`."""
