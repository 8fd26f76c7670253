"""The parts of `ctxr eval`: what is asked, what was scored, figures, comparison, tables, files."""
