"""Cross-encoders: models that look at an image and a text together."""
