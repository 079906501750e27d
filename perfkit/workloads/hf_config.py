"""Builds a Transformers config from a local file or a class name, with attributes overridden; nothing is downloaded."""

import difflib
import importlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from perfkit.core.errors import UnavailableError, UsageError, make_unknown_name_error
from perfkit.core.optional_deps import make_missing_package_error
from perfkit.core.spec import ParamValue
from perfkit.core.texts.param_texts import read_param_value

MISSING = str(make_missing_package_error("transformers", "'perfkit[hf]'"))

# Not part of an architecture: where its weights and code came from, and the dtype they were saved in.
_IGNORED_KEYS = ("auto_map", "torch_dtype", "dtype", "transformers_version", "_name_or_path")


def import_transformers() -> Any:
    """Import the package, in offline mode from the start; raise `UnavailableError` if it is missing."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TRANSFORMERS_OFFLINE"] = "1"
    try:
        return importlib.import_module("transformers")
    except ModuleNotFoundError as error:
        if error.name == "transformers":
            raise UnavailableError(MISSING, id="skip.package") from None
        raise


def load_config(argument: str, overrides: Mapping[str, ParamValue]) -> Any:
    """Load the config that `argument` names: the path of a config.json, of its folder, or a config class's name.

    `overrides` are passed to the class together with the file's values, so that derived values agree; one in brackets
    is a list.
    """
    transformers = import_transformers()
    path = Path(argument)
    if path.exists() or path.suffix == ".json":
        file = path / "config.json" if path.is_dir() else path
        values = _read_values(file)
        cls = _find_class_of_type(values, file)
    elif "/" in argument:
        raise UsageError(
            f"hf: no such file or folder {argument!r}; nothing is downloaded; save the model's config.json and "
            "give its path",
            id="usage.no_file",
        )
    else:
        values = {}
        cls = _find_class_of_name(transformers, argument)
    _check_overrides(cls, values, overrides)
    given = {key: read_param_value(value) for key, value in overrides.items()}
    return _build_config(cls, values | given, argument)


def _read_values(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise UsageError(
            f"hf: no such file {str(file)!r}; expected a config.json, its folder, or a config class", id="usage.no_file"
        )
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"hf: {str(file)!r} is not JSON: {error}") from None
    if not isinstance(values, dict) or not isinstance(values.get("model_type"), str):
        raise UsageError(f"hf: {str(file)!r} is not a Transformers config: it has no model_type")
    return {key: value for key, value in values.items() if key not in _IGNORED_KEYS}


def _find_class_of_type(values: Mapping[str, Any], file: Path) -> Any:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    model_type = values["model_type"]
    if model_type not in CONFIG_MAPPING:
        raise UsageError(
            f"hf: {str(file)!r}: model_type {model_type!r} is unknown to the installed transformers (nearest: "
            f"{_format_nearest(model_type, CONFIG_MAPPING.keys())}); a checkpoint's own code is not run"
        )
    return CONFIG_MAPPING[model_type]


def _find_class_of_name(transformers: Any, name: str) -> Any:
    from transformers.models.auto import configuration_auto

    names = set(configuration_auto.CONFIG_MAPPING_NAMES.values())  # type: ignore[attr-defined]
    if name not in names:
        raise UsageError(
            f"hf: {name!r} is neither a file nor a config class of transformers {transformers.__version__} "
            f"(nearest: {_format_nearest(name, names)})"
        )
    return getattr(transformers, name)


def _check_overrides(cls: Any, values: Mapping[str, Any], overrides: Mapping[str, ParamValue]) -> None:
    known = {key for key in cls().to_dict() if not key.startswith("_")} | set(cls.attribute_map) | {"num_labels"}
    for key in overrides:
        if key not in known and key not in values:
            near = difflib.get_close_matches(key, known, n=3, cutoff=0.5)
            if not near:
                raise UsageError(
                    f"hf: {cls.__name__} has no attribute {key!r}; expected one of {', '.join(sorted(known))}"
                )
            raise make_unknown_name_error(f"attribute of {cls.__name__}", key, near)


def _build_config(cls: Any, values: dict[str, Any], argument: str) -> Any:
    from huggingface_hub.errors import StrictDataclassError

    try:
        return cls.from_dict(values)
    except (ValueError, TypeError, KeyError, StrictDataclassError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"hf: {cls.__name__} rejects {argument!r} with these parameters: {reason}") from error


def _format_nearest(wanted: str, names: Iterable[str]) -> str:
    """The three most similar names, ignoring case: there are too many to list."""
    by_lower = {name.lower(): name for name in names}
    return ", ".join(by_lower[near] for near in difflib.get_close_matches(wanted.lower(), by_lower, n=3, cutoff=0.0))
