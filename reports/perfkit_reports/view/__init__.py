"""The dashboard of `perfkit view`: pages of a folder of runs, served read-only on this machine."""
