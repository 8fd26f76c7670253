"""The report: a chain of artifacts as one page that needs nothing but a browser. `page.SECTIONS` lists its parts."""
