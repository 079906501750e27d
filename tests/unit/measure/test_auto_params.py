"""What is yet to be found is named."""

import pytest

from perfkit.errors import UsageError
from perfkit.measure.auto_params import require_given_params
from perfkit.spec import WorkloadSpec, parse_variants
from perfkit.store.request import BenchRequest


def request(variants: str) -> BenchRequest:
    return BenchRequest(
        workload=WorkloadSpec(name="gpt"),
        variants=tuple(parse_variants(variants)),
        device="cpu",
        device_count=0,
        cores=1,
    )


def test_where_all_is_given_nothing_is_found() -> None:
    given = request("amp,batch:size=4,ckpt:blocks=2")
    found = require_given_params(given, lambda _: None)
    assert found.request is given
    assert (found.batches, found.recomputations, dict(found.refusals)) == ((), (), {})


@pytest.mark.parametrize(
    ("variant", "what"), [("amp+batch:auto", "its size"), ("amp+ckpt:fit=8GiB", "how much to recompute")]
)
def test_what_is_open_is_named(variant: str, what: str) -> None:
    with pytest.raises(UsageError) as raised:
        require_given_params(request(f"amp,{variant}"), lambda _: None)
    assert (
        str(raised.value)
        == f"{variant} leaves {what} open, which needs a search by perfkit bench; give the value that it found"
    )
