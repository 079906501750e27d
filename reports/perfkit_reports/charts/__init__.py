"""Charts as data: interactive ones in the JSON schema of plotly, the same for print with matplotlib."""
