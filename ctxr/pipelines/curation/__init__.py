"""From videos and photos to image sets: build-sets, filter, rebuild, verify."""
