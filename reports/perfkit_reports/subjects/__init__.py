"""What each kind of result says: a plain function from an analysis to a `Document` each."""
