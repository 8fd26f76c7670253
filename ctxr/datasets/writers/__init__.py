"""The formats of `ctxr export`: one file a format, each a function that writes a dataset into an empty folder."""
