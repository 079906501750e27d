"""Python processes that tests start, forked from one that has imported torch: nine tenths of a small run are imports.

`starts` has `subprocess` ask for a fork where it would start Python; `zygote` is the process that is forked, and in its
forks runs what was asked for. Nothing of perfkit is imported before the fork. A test for which an import matters is
marked `cold`: its processes start as anybody's do.
"""
