"""The drawn world, where answers are computed: the oracle of tests and `ctxr demo`."""
