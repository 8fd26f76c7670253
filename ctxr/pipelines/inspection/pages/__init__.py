"""The report as a page that needs only a browser. `SECTIONS` of `ctxr.pipelines.inspection.report` lists its parts."""
