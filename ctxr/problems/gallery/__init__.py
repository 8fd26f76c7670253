"""Galleries: pictures and captions retrieve each other, each with any number of correct answers."""
