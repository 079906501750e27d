"""Audits of numbers, models, traces and runs."""

import json
from pathlib import Path
from typing import Any

import pytest

import perfkit
from perfkit.core.errors import UsageError
from perfkit.mfu.audit import audit_mfu
from perfkit.mfu.audit_model import MfuAudit
from perfkit.mfu.measured_step import measure_step
from tests.fixtures.gpu_traces import training_file

LLAMA: dict[str, Any] = {"model": "llama-3-8b", "seq_len": 8192, "gpu": "h100"}


def shares(audit: MfuAudit) -> dict[str, float | None]:
    return {row.id: row.mfu for row in audit.rows}


def test_the_public_function() -> None:
    assert perfkit.audit_mfu is audit_mfu


def test_every_convention_of_a_model() -> None:
    audit = audit_mfu(**LLAMA, tokens_per_s="5762")
    per_token = {row.id: row.flops_per_token for row in audit.rows}
    assert per_token["palm"] == 6 * 8030261248 + 12 * 32 * 4096 * 8192
    assert per_token["torchtitan"] == 6 * (8030261248 - 128256 * 4096) + 12 * 32 * 4096 * 8192
    assert shares(audit)["torchtitan"] == pytest.approx(0.3373, abs=1e-4)
    palm = next(row for row in audit.rows if row.id == "palm")
    assert palm.mfu_sparse == pytest.approx(palm.mfu / 2)  # type: ignore[operator]
    assert "nanogpt" not in per_token  # no learned positions
    assert "palm.windows" not in per_token


def test_rows_of_windows_positions_and_experts_where_the_model_has_them() -> None:
    assert {"palm.windows", "matmuls.windows"} <= shares(audit_mfu("mistral-7b", seq_len=8192)).keys()
    assert "nanogpt" in shares(audit_mfu("gpt2", seq_len=1024))
    experts = {row.id: row.flops_per_token for row in audit_mfu("mixtral-8x7b", seq_len=4096).rows}
    assert experts["palm.all_experts"] - experts["palm"] == 6 * 33822867456  # type: ignore[operator]
    assert "megatron.2021" not in experts


def test_tokens_of_several_gpus_are_divided() -> None:
    one, eight = audit_mfu(**LLAMA, tokens_per_s="5000"), audit_mfu(**LLAMA, tokens_per_s="40000", gpus=8)
    assert shares(one) == shares(eight)
    step = audit_mfu(**LLAMA, step="2s", tokens_per_step="80000", gpus=8)
    assert shares(step) == shares(one)


def test_numbers_alone_give_what_they_can() -> None:
    audit = audit_mfu(params="8b", tokens_per_s="5762", gpu="h100", seq_len=8192)
    assert [row.id for row in audit.rows if row.mfu is not None] == ["6n"]
    assert all(row.reason for row in audit.rows if row.mfu is None)
    sized = audit_mfu(params="8b", active_params="2b", layers=32, width=4096, vocab=32000, seq_len=8192)
    assert {row.id for row in sized.rows if row.flops_per_token} >= {"6n", "palm", "torchtitan", "palm.all_experts"}
    assert sized.rows[0].flops_per_token == 12e9


def test_a_config_file_and_its_folder(tmp_path: Path) -> None:
    config = {"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 8, "vocab_size": 10, "n_positions": 4}
    (tmp_path / "config.json").write_text(json.dumps(config))
    for source in (tmp_path, tmp_path / "config.json"):
        audit = audit_mfu(str(source), seq_len=4)
        assert audit.model is not None
        assert audit.model.params == 2 * (12 * 64 + 13 * 8) + (10 + 4 + 2) * 8
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UsageError):
        audit_mfu(str(tmp_path))


def test_a_config_of_several_modalities_has_its_text(tmp_path: Path) -> None:
    text = {"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "seen", "text_config": text}))
    model = audit_mfu(str(tmp_path)).model
    assert model is not None
    assert model.layers == 1


def test_a_gpu_that_is_not_listed_has_a_given_peak() -> None:
    audit = audit_mfu(params="540.35b", layers=118, width=12288, seq_len=2048, tokens_per_s="238.3k", gpus=6144,
                      peak="275TFLOP/s")  # fmt: skip
    assert shares(audit)["palm"] == pytest.approx(0.4623, abs=1e-4)  # PaLM, appendix B: 46.2 %


def test_a_dtype_has_its_own_peak() -> None:
    audit = audit_mfu(**LLAMA, tokens_per_s="5762", dtype="fp8")
    assert audit.peak is not None
    assert audit.peak.dense == 1978.9e12


def test_a_trace_has_counted_ops_beside_the_formulas(tmp_path: Path) -> None:
    trace = str(training_file(tmp_path / "trace.json"))
    bare = audit_mfu(trace)
    assert [row.id for row in bare.rows] == ["counted", "counted.ran"]
    assert bare.step_s == measure_step(trace).step_s
    full = audit_mfu(trace, model="gpt2", seq_len=64, tokens_per_step="512", gpu="a100-80g")
    counted = next(row for row in full.rows if row.id == "counted")
    measured = measure_step(trace)
    assert counted.flops_per_s == pytest.approx(measured.model_flops / measured.step_s)  # type: ignore[operator]
    assert counted.flops_per_token == pytest.approx(measured.model_flops / 512)  # type: ignore[operator]
    assert full.tokens_per_s == pytest.approx(512 / measured.step_s)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"source": "llama-3-8b", "model": "gpt2"},
        {"source": "lama-3-8b"},
        {"model": "bert-base"},
        {"model": "gpt2", "params": "8b"},
        {"model": "gpt2", "layers": 3},
        {"params": "8b", "active_params": "9b"},
        {"model": "gpt2", "gpu": "h100", "peak": "1TFLOP/s"},
        {"model": "gpt2", "gpu": "h100,a100"},
        {"model": "gpt2", "gpu": "h100", "dtype": "fp3"},
        {"model": "gpt2", "step": "1s"},
        {"model": "gpt2", "tokens_per_s": "5", "step": "1s", "tokens_per_step": "5"},
        {"model": "gpt2", "claimed": "40%", "gpu": "h100"},
        {"model": "gpt2", "claimed": "40%", "tokens_per_s": "5"},
        {"source": "no/such.json.gz"},
    ],
)
def test_what_cannot_be_audited_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        audit_mfu(**options)
