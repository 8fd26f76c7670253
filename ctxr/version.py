"""The version of the package. Rooms import it from here, because `ctxr` itself imports them."""

__version__ = "0.1.0"
