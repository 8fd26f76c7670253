"""Judges that others made: models of natural language inference and of image-text matching, and files of probabilities."""
