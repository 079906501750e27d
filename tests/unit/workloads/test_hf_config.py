"""Transformers configs: found locally, overridden, and refused with a reason."""

import json
import os
import sys
from pathlib import Path

import pytest

from perfkit.core.errors import UnavailableError, UsageError
from perfkit.core.spec import ParamValue, parse_workload
from perfkit.workloads.hf_config import import_transformers, load_config
from tests.fixtures.errors import has_id

FILES = Path(__file__).parents[2] / "fixtures" / "workloads"


def test_missing_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UnavailableError, match=r"'perfkit\[hf\]'$", check=has_id("skip.package")):
        import_transformers()


class TestWithTransformers:
    @pytest.fixture(autouse=True)
    def _needs_transformers(self) -> None:
        pytest.importorskip("transformers")

    def test_stays_offline(self) -> None:
        import_transformers()
        assert os.environ["HF_HUB_OFFLINE"] == os.environ["TRANSFORMERS_OFFLINE"] == "1"

    @pytest.mark.parametrize("argument", [FILES / "llama", FILES / "llama" / "config.json"])
    def test_file_or_folder(self, argument: Path) -> None:
        config = load_config(str(argument), {"num_hidden_layers": 3, "rms_norm_eps": 1e-3})
        assert type(config).__name__ == "LlamaConfig"
        assert (config.hidden_size, config.num_hidden_layers, config.rms_norm_eps) == (32, 3, 1e-3)

    def test_class_name(self) -> None:
        config = load_config("BertConfig", {"hidden_size": 48})
        assert (type(config).__name__, config.hidden_size) == ("BertConfig", 48)

    def test_code_of_a_checkpoint_is_not_run(self, tmp_path: Path) -> None:
        values = json.loads((FILES / "llama" / "config.json").read_text())
        (tmp_path / "config.json").write_text(json.dumps(values | {"auto_map": {"AutoConfig": "evil.Config"}}))
        assert not hasattr(load_config(str(tmp_path), {}), "auto_map")

    @pytest.mark.parametrize(
        ("argument", "overrides", "message"),
        [
            ("missing.json", {}, "'missing.json'"),
            (str(FILES), {}, "'.*workloads/config.json'"),
            (str(FILES / "mlp.py"), {}, "JSON"),
            ("llamaconfig", {}, "llamaconfig.*LlamaConfig, "),
            ("org/model-7b", {}, "config.json"),
            (str(FILES / "llama"), {"num_layer": 3}, "LlamaConfig.*'num_layer'.*num_"),
            (str(FILES / "llama"), {"zzzzzzzz": 3}, "LlamaConfig.*'zzzzzzzz'.*hidden_size"),
            (str(FILES / "llama"), {"num_hidden_layers": "two"}, "LlamaConfig.*num_hidden_layers"),
            (str(FILES / "llama"), {"num_attention_heads": 5}, "LlamaConfig.*multiple"),
        ],
    )
    def test_refused(self, argument: str, overrides: dict[str, ParamValue], message: str) -> None:
        with pytest.raises(UsageError, match=message):
            load_config(argument, overrides)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("[]", "model_type"),
            ('{"hidden_size": 3}', "model_type"),
            ('{"model_type": "lama"}', "model_type 'lama'.*llama"),
            ("\xff", "JSON"),
        ],
    )
    def test_files_that_are_no_config(self, content: str, message: str, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_text(content, encoding="latin-1")
        with pytest.raises(UsageError, match=message):
            load_config(str(tmp_path), {})


def test_a_list_of_a_workloads_text_reaches_the_config() -> None:
    spec = parse_workload("hf:SwinConfig:depths=[1,3]:num_heads=[2,4]:embed_dim=8", ())
    assert spec.label == "hf:SwinConfig:depths=[1,3]:num_heads=[2,4]:embed_dim=8"
    config = load_config("SwinConfig", spec.params)
    assert (config.depths, config.num_heads, config.embed_dim) == ([1, 3], [2, 4], 8)
