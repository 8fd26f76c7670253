"""The parts of `ctxr train`: recipes, queries, caches, the run as an artifact."""
