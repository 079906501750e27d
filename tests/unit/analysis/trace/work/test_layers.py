"""Layers of a model as one module, and the module of a group of kernels."""

import numpy as np

from perfkit.analysis.trace.time.grouping import group_rows
from perfkit.analysis.trace.work.layers import merge_layers, name_group_modules

MODULES = ["Net_0/Block_0/Linear_1", "Net_0/Block_1/Linear_5", "Net_0/Block_1/Norm_1", "net.layers.3.mlp"]


def test_layers_that_differ_by_number_are_one() -> None:
    labels, classes = merge_layers(MODULES)
    assert labels == ["Net/Block/Linear", "Net/Block/Norm", "net.layers.*.mlp"]
    assert classes.tolist() == [0, 0, 1, 2]


def test_a_group_has_the_module_of_most_of_its_time_and_says_how_many_others() -> None:
    groups = group_rows(np.asarray([0, 0, 0, 1, 1, 2, 3, 3]))
    module = np.asarray([0, 1, 2, 3, -1, -1, 2, 1])
    busy_ns = np.asarray([30, 30, 50, 10, 90, 10, 5, 6])
    names = name_group_modules(groups, module, busy_ns, MODULES)
    assert names == ["Net/Block/Linear and 1 more", "net.layers.*.mlp", "", "Net/Block/Linear and 1 more"]
    assert name_group_modules(groups, np.full(8, -1), busy_ns, []) == [""] * 4
