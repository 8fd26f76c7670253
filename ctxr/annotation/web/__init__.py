"""The annotation server: all its pages but the live part of a dialogue work without a script."""
