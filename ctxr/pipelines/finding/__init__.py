"""Finding a picture by words, a drawing, or another picture."""
