"""The report as a page that needs only a browser. `page.SECTIONS` lists its parts."""
