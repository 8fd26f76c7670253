"""What `import ctxr` offers."""
