"""Links: which sentence of a document belongs to which of its images, learned from their occurring together."""
