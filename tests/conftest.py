"""What all tests share: skipping what needs a GPU where there is none, and finding a browser."""

import os
import shutil

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    import torch  # only where a test asks for a GPU: the import takes seconds

    if not torch.cuda.is_available():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.fixture(scope="session")
def browser_path() -> str:
    """The path of a Chromium or Chrome; the test is skipped where there is none.

    The environment variable PERFKIT_BROWSER names another one.
    """
    candidates = [os.environ.get("PERFKIT_BROWSER"), *map(shutil.which, BROWSERS)]
    found = next((path for path in candidates if path), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is installed")
    return found
