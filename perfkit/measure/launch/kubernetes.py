"""A bench in the pods of a Kubernetes cluster: its manifest, an Indexed Job with one pod per machine.

The first pod runs the bench, the others join it, with a secret made for this manifest. Kubernetes documents the parts:
"Job with Pod-to-Pod Communication" (the headless Service by which pods find each other: each name is its pod's own
address), "Indexed Job" (JOB_COMPLETION_INDEX, the number of a pod), "Define container environment variables using
Secret data".
"""

from dataclasses import dataclass
from typing import Any

from perfkit.core.optional_deps import explain_import_error
from perfkit.measure.launch.join_secret import VARIABLE, make_secret

# What a pod's number is called in its environment.
INDEX = "JOB_COMPLETION_INDEX"
_PORT = 29500
_KEY = "join-secret"
_GPU = "nvidia.com/gpu"


@dataclass(frozen=True, kw_only=True)
class VolumeClaim:
    """A claim of storage that all pods mount at the same path."""

    claim: str
    path: str


@dataclass(frozen=True, kw_only=True)
class Pods:
    """Needs of a bench's pods, and their common command.

    `name` is that of the Job and its Service. `gpus` and `cpus` are those of each pod; None: as many CPUs as it finds.
    """

    name: str
    image: str
    count: int
    gpus: int
    cpus: int | None
    volume: VolumeClaim | None
    command: tuple[str, ...]


def format_endpoint(name: str) -> str:
    """`HOST:PORT` of the first pod of the Job `name`, whose Service is called so, too."""
    return f"{name}-0.{name}:{_PORT}"


def build_manifest(pods: Pods, comment: str) -> str:
    """Build the YAML of the Job, and if there are several pods of the Service that names them and of their new secret,
    after `comment`.

    Raises `UnavailableError` without PyYAML.
    """
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise explain_import_error("yaml", "'perfkit[kubernetes]'", error) from None

    class Dumper(yaml.SafeDumper):
        """Text of several lines as it is read."""

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
        style = "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    joined = [] if pods.count == 1 else [_build_secret(pods.name), _build_service(pods.name)]
    documents = [*joined, _build_job(pods)]
    written: str = yaml.dump_all(documents, Dumper=Dumper, sort_keys=False, width=10_000)
    head = "".join(f"# {line}".rstrip() + "\n" for line in comment.splitlines())
    return head + written


def _build_secret(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {_KEY: make_secret()}}


def _build_service(name: str) -> dict[str, Any]:
    # No address: it only gives each pod a name, and at once, since pods wait for each other.
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"job-name": name}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def _build_job(pods: Pods) -> dict[str, Any]:
    spec = {
        "completionMode": "Indexed",
        "completions": pods.count,
        "parallelism": pods.count,
        "backoffLimit": 0,  # a restarted bench finds its folder occupied
        "template": {"metadata": {"labels": {"app.kubernetes.io/name": "perfkit"}}, "spec": _build_pod(pods)},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": pods.name}, "spec": spec}


def _build_pod(pods: Pods) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": "perfkit",
        "image": pods.image,
        "command": list(pods.command),
        **_build_resources(pods),
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    }
    # A container's own /dev/shm has 64 MiB, too little for a DataLoader's workers and for NCCL.
    volumes: list[dict[str, Any]] = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    if pods.volume is not None:
        container["volumeMounts"].append({"name": "runs", "mountPath": pods.volume.path})
        volumes.append({"name": "runs", "persistentVolumeClaim": {"claimName": pods.volume.claim}})
    pod: dict[str, Any] = {"restartPolicy": "Never"}
    if pods.count > 1:
        secret = {"secretKeyRef": {"name": pods.name, "key": _KEY}}
        container["env"] = [{"name": VARIABLE, "valueFrom": secret}]
        pod |= {"subdomain": pods.name, "affinity": _build_anti_affinity(pods.name)}
    if pods.gpus:
        pod["tolerations"] = [{"key": _GPU, "operator": "Exists", "effect": "NoSchedule"}]
    return {**pod, "containers": [container], "volumes": volumes}


def _build_resources(pods: Pods) -> dict[str, Any]:
    resources: dict[str, Any] = {}
    if pods.cpus is not None:
        resources["requests"] = {"cpu": str(pods.cpus)}
    if pods.gpus:
        resources["limits"] = {_GPU: str(pods.gpus)}
    return {"resources": resources} if resources else {}


def _build_anti_affinity(name: str) -> dict[str, Any]:
    """Put each pod on its own machine: two on one would communicate through its memory, and be reported as two
    machines."""
    term = {"labelSelector": {"matchLabels": {"job-name": name}}, "topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
