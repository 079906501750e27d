"""The generated parts of docs/: `python -m perfkit_cli.reference docs` writes them."""
