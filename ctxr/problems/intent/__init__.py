"""Intent: after each turn of a dialogue, whether a photo is shared next."""
