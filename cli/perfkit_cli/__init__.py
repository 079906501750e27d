"""The command line: parses, calls, prints. Measuring and analysing are the library's."""
