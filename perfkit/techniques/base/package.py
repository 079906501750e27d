"""Packages that techniques use and perfkit does not bring, and which torch their releases need."""

from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

import torch

from perfkit.core.optional_deps import make_missing_package_error


class TorchFeature(NamedTuple):
    """A public name of torch, and the first release that has it."""

    release: str
    module: str
    name: str

    def is_present(self) -> bool:
        return hasattr(import_module(self.module), self.name)


class Package(NamedTuple):
    """A package that perfkit does not bring: the module that is imported, and what `pip install` is given.

    `imports` is what its supported releases import from torch, where an older torch lacks that.
    """

    module: str
    install: str
    imports: TorchFeature | None = None


# 0.18 (torchao/quantization/quantize_/workflows/float8/float8_tensor.py).
TORCHAO = Package("torchao", "torchao", TorchFeature("2.10", "torch.nn.functional", "ScalingType"))


def explain_missing_package(package: Package | None) -> str:
    """Explain why a package cannot be imported here, and what to do; "" if it can, or none is needed."""
    if package is None:
        return ""
    # First, since one that cannot be imported is not to be installed: other libraries import torchao where it is there.
    if package.imports is not None and not package.imports.is_present():
        release, module, name = package.imports
        return (
            f"{package.module} needs torch {release} or newer, which has {module}.{name}; torch {torch.__version__} "
            "is installed: upgrade it"
        )
    if find_spec(package.module) is None:
        return str(make_missing_package_error(package.module, package.install))
    return ""
