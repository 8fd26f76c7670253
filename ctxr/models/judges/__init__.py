"""Judges beside our classifiers: published models, language models, and files of probabilities."""
