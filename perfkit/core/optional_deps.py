"""Error messages for optional packages that are not installed."""

from perfkit.core.errors import UnavailableError


def make_missing_package_error(package: str, install: str) -> UnavailableError:
    return UnavailableError(f"needs the package {package}: pip install {install}", id="skip.package")


def explain_import_error(package: str, install: str, error: ModuleNotFoundError) -> Exception:
    """The error to raise for a failed import: it says what to install, unless it is another module that is missing."""
    return make_missing_package_error(package, install) if error.name == package else error
