"""The version of the package; below all rooms, so that none imports the package itself, which offers all of them."""

__version__ = "0.1.0"
