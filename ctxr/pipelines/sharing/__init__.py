"""Passing a benchmark on: export."""
