"""Other people's frameworks and trackers, each in a file of its own that is imported only when it is used."""
