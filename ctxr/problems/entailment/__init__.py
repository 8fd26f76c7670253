"""Entailment: whether a picture, texts, or both entail a text."""
