"""What is yet to be found is named."""

import pytest

from perfkit.core.errors import UsageError
from perfkit.core.spec import WorkloadSpec, parse_variants
from perfkit.measure.auto_params import require_given_params
from perfkit.store.request import BenchRequest
from perfkit.techniques.compose import find_open_technique


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


@pytest.mark.parametrize("variant", ["amp+batch:auto", "amp+ckpt:fit=8GiB"])
def test_what_is_open_is_named(variant: str) -> None:
    technique = find_open_technique(parse_variants(variant)[0])
    assert technique is not None
    with pytest.raises(UsageError) as raised:
        require_given_params(request(f"amp,{variant}"), lambda _: None)
    message = str(raised.value)
    assert message.startswith(f"{variant} ")
    assert technique.describe_open_params() in message
    assert "perfkit bench" in message
