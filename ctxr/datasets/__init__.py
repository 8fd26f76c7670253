"""A benchmark in memory: readers and writers of formats, splits, rounds of revised labels."""
