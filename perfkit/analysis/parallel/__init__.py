"""Where traces are analysed: here, in processes, on Ray."""
