"""`python -m perfkit_cli` is the same as `perfkit`."""

from perfkit_cli.main import main

main()
