"""Error messages for optional packages that are not installed."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec

from perfkit.core.errors import UnavailableError

TORCH = "torch"
# What pip is given: the extra names the versions that perfkit is tested with.
INSTALL_TORCH = "'perfkit[torch]'"


def make_missing_package_error(package: str, install: str) -> UnavailableError:
    return UnavailableError(f"needs the package {package}: pip install {install}", id="skip.package")


def explain_import_error(package: str, install: str, error: ModuleNotFoundError) -> Exception:
    """The error to raise for a failed import: it says what to install, unless it is another module that is missing."""
    return make_missing_package_error(package, install) if error.name == package else error


@cache
def is_torch_installed() -> bool:
    """True if torch can be imported; it is not imported here, which takes seconds."""
    return find_spec(TORCH) is not None


def require_torch(user: str) -> None:
    """Raise an `UnavailableError` without torch, for what only starts processes that import it."""
    if not is_torch_installed():
        raise make_missing_torch_error(user)


@contextmanager
def explain_missing_torch(user: str) -> Iterator[None]:
    """Raise an `UnavailableError` that says what to install where the body fails for want of torch.

    `user` is the function that needs it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if not is_about_torch(error):
            raise
        raise make_missing_torch_error(user) from error


def is_about_torch(error: ModuleNotFoundError) -> bool:
    """True for the failed import of torch itself, not of a module that torch or a user's program lacks."""
    return error.name == TORCH


def make_missing_torch_error(user: str) -> UnavailableError:
    return UnavailableError(f"{user} needs torch: pip install {INSTALL_TORCH}", id="error.no_torch")
