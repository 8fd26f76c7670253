"""What and where: which image is meant by a text and by what the mouse drew while it was said."""
