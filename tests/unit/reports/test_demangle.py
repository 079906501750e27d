import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit_reports.demangle import demangle_name
from perfkit_reports.names import shorten_kernel

ADD = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_"


READ = {  # as c++filt -p reads them
    ADD: "at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>>",
    "_Z9my_kernelPfi": "my_kernel",
    "_ZN12_GLOBAL__N_14copyEv": "(anonymous namespace)::copy",
    "_Z3addIfLb1EEvPT_": "add<float, true>",
    "_ZN1a1bIJNS_1cEPKdEE3runEv": "a::b<a::c, double const*>::run",
    "_ZNSt8_Rb_treeImSt4pairIKmlESt10_Select1stIS2_EE5eraseEv": "std::_Rb_tree<unsigned long, "
    "std::pair<unsigned long const, long>, std::_Select1st<std::pair<unsigned long const, long>>>::erase",
}


@pytest.mark.parametrize("name", READ)
def test_mangled_names_are_read_back(name: str) -> None:
    assert demangle_name(name) == READ[name]


@pytest.mark.parametrize(
    "name",
    [
        "attn_fwd",
        "",
        "_Z",
        "_ZN",
        "_ZN3ab",
        "_ZN2at1",
        "_Z3addI",
        "_ZN1aplEv",
        "_ZNS5_1aE",
        "_ZZ1fvE1g",
        "_Z1fIS",
        "_Z1fI1aIT",
    ],
)
def test_what_is_not_understood_stays_as_it_is(name: str) -> None:
    assert demangle_name(name) == name


def test_a_name_that_refers_to_its_parts_again_and_again_stays_as_it_is() -> None:
    """Each part is twice the one before: read out they would be billions of characters."""
    references = [f"S{digit}_" for digit in string.digits + string.ascii_uppercase][:34]
    bomb = "_Z1fI1aIiiE" + "".join(f"S0_I{each}{each}E" for each in references[1:]) + "Evv"
    assert demangle_name(bomb) == bomb


@given(st.sampled_from([name for name in READ if len(name) > 30]), st.data())
def test_whatever_was_cut_out_of_a_name_or_put_into_it_is_read_or_stays(name: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(2, len(name)))
    end = data.draw(st.integers(start, len(name)))
    some = name[:start] + data.draw(st.text("NISTEPKRLJZX019_fv", max_size=4)) + name[end:]
    assert isinstance(demangle_name(some), str)


def test_a_mangled_kernel_has_a_short_name() -> None:
    assert shorten_kernel(ADD) == "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, …>"


def test_a_name_that_ends_within_its_brackets_keeps_what_it_has() -> None:
    assert shorten_kernel("void cutlass::Kernel<cutlass::conv::Convolution<cutlass::gemm::Shape<128") == (
        "Kernel<Convolution<Shape<128>>>"
    )
