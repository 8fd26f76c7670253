"""The drawn world, whose every answer can be computed: the oracle of the tests and of `ctxr demo`."""
