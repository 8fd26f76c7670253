"""Asking people: plan, export-tasks, serve, import-answers, workers, aggregate."""
