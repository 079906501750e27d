"""rocprofv3's JSON (`--output-format json`)."""
