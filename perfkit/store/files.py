"""The files of a run directory are read strictly and written atomically, as all of perfkit's are."""

from perfkit.files import read_json, write_bytes, write_json

__all__ = ["read_json", "write_bytes", "write_json"]
