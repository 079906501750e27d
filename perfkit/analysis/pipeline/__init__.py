"""From files to results: analyzes each kind of input, and collects findings and gains."""
