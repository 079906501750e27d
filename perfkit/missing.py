"""What is said where a package is not installed that only some need."""

from perfkit.errors import UnavailableError


def needs(package: str, install: str) -> UnavailableError:
    return UnavailableError(f"needs the package {package}: pip install {install}")


def missing(package: str, install: str, error: ModuleNotFoundError) -> Exception:
    """The error to raise for a failed import: it says what to install, unless it is another module that is missing."""
    return needs(package, install) if error.name == package else error
