"""What lies on disk: records, tables, arrays, scores, artifacts and their kinds."""
