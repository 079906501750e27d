"""The subjects of reports: for each kind of result a plain function from an analysis to a `Document`."""
