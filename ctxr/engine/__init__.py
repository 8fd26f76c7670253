"""How any verb runs: options, the project, progress, staging, child processes."""
