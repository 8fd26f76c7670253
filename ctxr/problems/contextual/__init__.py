"""Contextual retrieval: the right one of the images of a set."""
