"""What does not run in a dtype says so before anything is started, and what to type instead."""

import re

import pytest

from perfkit.core.errors import UnavailableError
from perfkit.core.spec import WorkloadSpec, parse_variants
from perfkit.measure.bench import compute_needed_ranks, find_dtype_refusal
from perfkit.measure.schedule import build_schedule
from perfkit.store.request import BenchRequest
from perfkit.techniques.activations.flash import Flash
from perfkit.techniques.apply import apply_all
from tests.unit.techniques.tiny import new_state


@pytest.mark.parametrize(
    ("technique", "dtype", "instead"),
    [
        ("flash", "fp32", "amp+flash"),
        ("ckpt+flash:backend=cudnn", "fp32", "amp+flash:backend=cudnn+ckpt"),
        ("flash", "tf32", "amp+flash"),
        ("flash", "bf16", ""),
        ("flash", "fp16", ""),
        ("amp+flash", "fp32", ""),
        ("flash+amp:dtype=fp16", "fp32", ""),
        ("flash:backend=efficient", "fp32", ""),
        ("flash:backend=math", "fp32", ""),
        ("flash:backend=auto", "fp32", ""),
        ("ckpt", "fp32", ""),
    ],
)
def test_flash_on_a_gpu(technique, dtype, instead):
    (variant,) = parse_variants(technique)
    refusal, id = find_dtype_refusal(variant, "cuda", dtype)
    assert re.findall(r"--technique ([^ ,]+)", refusal) == ([instead] if instead else [])
    assert ("--dtype bf16" in refusal) == bool(refusal) == bool(instead)
    assert id == "skip.dtype"
    assert not find_dtype_refusal(variant, "cpu", dtype)


def test_the_parent_of_a_bench_skips_it():
    request = BenchRequest(
        workload=WorkloadSpec(name="gpt"), variants=tuple(parse_variants("flash,amp+flash")), device="cuda",
        device_count=1, cores=8, rounds=0,
    )  # fmt: skip
    skipped = {
        run.spec.variant: run.skip for run in build_schedule(request, compute_needed_ranks, find_dtype_refusal).runs
    }
    assert skipped["flash"].startswith("flash ")
    assert skipped["amp+flash"] == skipped["baseline"] == ""


def test_a_worker_refuses_it_too(monkeypatch):
    monkeypatch.setattr(Flash, "needs_16_bits", lambda _technique, _device: True)
    with pytest.raises(UnavailableError, match=r"--technique amp\+flash"):
        apply_all((Flash(),), new_state())
