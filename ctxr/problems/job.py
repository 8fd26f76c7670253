"""What the seeds of a training share."""
