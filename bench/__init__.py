"""Measurements, side by side in one run. `make bench` runs `python -m bench`; each module has `measure() -> list[Row]`."""
