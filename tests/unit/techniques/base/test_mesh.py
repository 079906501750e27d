"""Where ranks lie in the mesh of a run, without any of them."""

import pytest
from torch.distributed.device_mesh import DeviceMesh

from perfkit.core.errors import UnavailableError
from perfkit.plan.rehearsal.ranks.fake_ranks import simulate_ranks
from perfkit.techniques.base.mesh import RankMesh
from tests.fixtures.errors import has_id
from tests.fixtures.torch_features import NEEDS_DIVIDED_MESHES


def test_ranks_of_a_layer_lie_next_to_each_other_and_those_of_stages_farthest() -> None:
    mesh = RankMesh("cpu", 5, {"pp": 2, "dp": 2, "tp": 2})
    assert [mesh.place(name) for name in ("pp", "dp", "tp")] == [1, 0, 1]
    assert mesh.lines == {"pp": (1, 5), "dp": (5, 7), "tp": (4, 5)}


def test_ranks_with_one_place_in_dp_train_on_the_samples_of_all_of_them() -> None:
    sizes = {"pp": 2, "dp": 2, "tp": 2}
    assert [RankMesh("cpu", rank, sizes).samples_of for rank in (0, 3, 4)] == [(0, 1, 4, 5), (2, 3, 6, 7), (0, 1, 4, 5)]
    assert [RankMesh("cpu", rank, {"dp": 4}).samples_of for rank in (0, 3)] == [(0,), (3,)]


def test_the_submesh_of_a_dimension_has_its_ranks() -> None:
    with simulate_ranks(4):
        mesh = RankMesh("cpu", 0, {"dp": 2, "tp": 2})
        assert mesh.get_submesh("dp").mesh.tolist() == [0, 2]
        assert mesh.get_submesh("tp").mesh.tolist() == [0, 1]


@NEEDS_DIVIDED_MESHES
def test_a_dimension_is_divided_beside_the_others() -> None:
    with simulate_ranks(8):
        mesh = RankMesh("cpu", 0, {"dp": 4, "tp": 2})
        divided = mesh.divide_dimension("dp", 2, ("replicate", "shard"))
        assert divided.mesh.tolist() == [[0, 2], [4, 6]]
        assert mesh.lines == {"dp": (0, 2, 4, 6), "tp": (0, 1), "replicate": (0, 4), "shard": (0, 2)}
        with pytest.raises(UnavailableError, match=r"^4 .*\b3$", check=has_id("skip.indivisible")):
            mesh.divide_dimension("dp", 3, ("a", "b"))


def test_a_torch_that_cannot_divide_a_dimension_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(DeviceMesh, "_unflatten", raising=False)
    with pytest.raises(UnavailableError, match=r"torch 2\.10", check=has_id("skip.package")):
        RankMesh("cpu", 0, {"dp": 4}).divide_dimension("dp", 2, ("replicate", "shard"))
