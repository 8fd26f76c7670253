"""Cross-encoders: models that look at an image and a text together (specs A0.2, 6)."""
