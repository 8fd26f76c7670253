"""What any page served by ctxr stands on: security headers, limits, static files, templates, signed tokens, connections."""
