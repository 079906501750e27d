import pytest

from perfkit_reports.mangled import demangled
from perfkit_reports.names import short_kernel

ADD = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_"


@pytest.mark.parametrize(
    ("name", "read"),  # as c++filt -p reads them
    [
        (
            ADD,
            "at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>>",
        ),
        ("_Z9my_kernelPfi", "my_kernel"),
        ("_ZN12_GLOBAL__N_14copyEv", "(anonymous namespace)::copy"),
        ("_Z3addIfLb1EEvPT_", "add<float, true>"),
        ("_ZN1a1bIJNS_1cEPKdEE3runEv", "a::b<a::c, double const*>::run"),
        (
            "_ZNSt8_Rb_treeImSt4pairIKmlESt10_Select1stIS2_EE5eraseEv",
            "std::_Rb_tree<unsigned long, std::pair<unsigned long const, long>, "
            "std::_Select1st<std::pair<unsigned long const, long>>>::erase",
        ),
    ],
)
def test_mangled_names_are_read_back(name: str, read: str) -> None:
    assert demangled(name) == read


@pytest.mark.parametrize(
    "name", ["attn_fwd", "", "_Z", "_ZN", "_ZN3ab", "_ZN2at1", "_Z3addI", "_ZN1aplEv", "_ZNS5_1aE", "_ZZ1fvE1g"]
)
def test_what_is_not_understood_stays_as_it_is(name: str) -> None:
    assert demangled(name) == name


def test_a_mangled_kernel_has_a_short_name() -> None:
    assert short_kernel(ADD) == "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, …>"


def test_a_name_that_ends_within_its_brackets_keeps_what_it_has() -> None:
    assert short_kernel("void cutlass::Kernel<cutlass::conv::Convolution<cutlass::gemm::Shape<128") == (
        "Kernel<Convolution<Shape<128>>>"
    )
