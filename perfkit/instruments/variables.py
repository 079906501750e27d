"""The environment variables that a record keeps: those that can change a rank's numbers. Secrets are left out."""

import re
from collections.abc import Mapping

from perfkit.devices.accelerator import VISIBILITY
from perfkit.devices.machine.shared_gpu import SHARED_GPU

VARIABLES = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF", "NCCL_ALGO", "NCCL_PROTO", "GLOO_SOCKET_IFNAME", "LD_PRELOAD", "MALLOC_ARENA_MAX",
    "MALLOC_MMAP_THRESHOLD_", "TORCHINDUCTOR_FX_GRAPH_CACHE", *VISIBILITY,
)  # fmt: skip
# Of messages between ranks: NCCL's own, those of torch's process group (ProcessGroupNCCL.hpp), and RCCL's.
_OF_MESSAGES = ("NCCL_", "TORCH_NCCL_", "RCCL_")
# perfkit has its ranks leave a dump, which changes no step.
_OWN = ("TORCH_NCCL_DUMP_ON_TIMEOUT",)
# Which perfkit sets for each rank where ranks share a GPU.
_OF_SHARING = ("NCCL_HOSTID", "NCCL_SOCKET_IFNAME")

NOT_RECORDED = "(set; not recorded because it looks like a secret)"
# NCCL_IB_PKEY is the index of a partition.
_SECRET_NAME = re.compile(r"(?<!P)KEY|TOKEN|SECRET|PASS(WORD|WD|PHRASE)|CREDENTIAL|AUTH")
_SECRET_VALUE = re.compile(
    r"-----BEGIN |://[^/\s@]*:[^/\s@]*@|\b(hf_|gh[opsu]_|github_pat_|sk-|xox[bp]-|AKIA|eyJ)[\w-]{8,}"
    # 32 characters and more in one piece, in large and small letters and digits: no number, path or list of names
    r"|^(?=.*[a-z])(?=.*[A-Z])(?=.*\d)[\w+=-]{32,}$"
)


def recorded_variables(variables: Mapping[str, str], *, on_gpu: bool) -> dict[str, str]:
    """Those of `variables` that a record keeps; those of messages on a GPU, and where there are several ranks."""
    names = set(VARIABLES) & variables.keys()
    if on_gpu or variables.get("WORLD_SIZE", "1") != "1":
        names |= {name for name in variables if name.startswith(_OF_MESSAGES)}.difference(_OWN)
        if variables.get(SHARED_GPU) == "1":
            names = {SHARED_GPU} | names.difference(_OF_SHARING)
    return {name: _without_secret(name, variables[name]) for name in sorted(names)}


def _without_secret(name: str, value: str) -> str:
    return NOT_RECORDED if _SECRET_NAME.search(name) or _SECRET_VALUE.search(value) else value
