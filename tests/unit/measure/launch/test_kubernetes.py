"""The manifest of a bench in pods, held against Kubernetes' own schemas."""

import sys
from dataclasses import replace

import pytest
import yaml
from kubernetes_validate import ValidationError, latest_version, validate

from perfkit.core.errors import UnavailableError
from perfkit.measure.launch.join_secret import VARIABLE
from perfkit.measure.launch.kubernetes import Pods, VolumeClaim, build_manifest, format_endpoint

VERSIONS = ("1.25", latest_version())
TWO = Pods(
    name="perfkit-x",
    image="registry/me/train:1",
    count=2,
    gpus=8,
    cpus=16,
    volume=VolumeClaim(claim="results", path="/runs"),
    command=("/bin/sh", "-c", "if true; then\n  exec perfkit bench\nfi\n"),
)
ONE = replace(TWO, count=1, gpus=0, cpus=None)


def parts(pods: Pods) -> list[dict]:
    return list(yaml.safe_load_all(build_manifest(pods, "perfkit bench\nwhere")))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("pods", [TWO, ONE])
def test_it_is_what_kubernetes_takes(pods: Pods, version: str) -> None:
    for part in parts(pods):
        validate(part, version, strict=True)


def test_the_schemas_would_tell() -> None:
    *_, job = parts(TWO)
    with pytest.raises(ValidationError):
        validate({**job, "spec": {**job["spec"], "completion": 2}}, VERSIONS[-1], strict=True)


def test_each_pod_is_a_machine_that_the_others_find() -> None:
    _, service, job = parts(TWO)
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    assert (spec["completions"], spec["parallelism"], spec["backoffLimit"]) == (2, 2, 0)
    # Kubernetes calls the first pod JOB-0, and the Service that is its subdomain gives it an address.
    assert format_endpoint(TWO.name) == f"{job['metadata']['name']}-0.{pod['subdomain']}:29500"
    assert service["metadata"]["name"] == pod["subdomain"]
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    [apart] = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["labelSelector"]["matchLabels"] == service["spec"]["selector"]


def test_the_pods_of_each_manifest_share_a_secret_of_their_own() -> None:
    secret, _, job = parts(TWO)
    [container] = job["spec"]["template"]["spec"]["containers"]
    [variable] = container["env"]
    named = variable["valueFrom"]["secretKeyRef"]
    assert (secret["kind"], variable["name"], named["name"]) == ("Secret", VARIABLE, secret["metadata"]["name"])
    value = secret["stringData"][named["key"]]
    assert len(bytes.fromhex(value)) == 32
    assert value not in str(job)
    assert value != parts(TWO)[0]["stringData"][named["key"]]


def test_a_pod_has_its_gpus_shared_memory_and_the_volume() -> None:
    *_, job = parts(TWO)
    pod = job["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert container["resources"] == {"requests": {"cpu": "16"}, "limits": {"nvidia.com/gpu": "8"}}
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    volumes = {volume.pop("name"): volume for volume in pod["volumes"]}
    assert volumes[mounts["/dev/shm"]] == {"emptyDir": {"medium": "Memory"}}
    assert volumes[mounts["/runs"]] == {"persistentVolumeClaim": {"claimName": "results"}}
    assert container["command"] == list(TWO.command)


def test_one_pod_needs_no_others() -> None:
    [job] = parts(ONE)
    pod = job["spec"]["template"]["spec"]
    assert pod.keys() == {"restartPolicy", "containers", "volumes"}
    assert "env" not in pod["containers"][0]
    assert "resources" not in pod["containers"][0]


def test_it_can_be_read() -> None:
    text = build_manifest(TWO, "perfkit bench\nwhere")
    assert text.splitlines()[:4] == ["# perfkit bench", "# where", "apiVersion: v1", "kind: Secret"]
    assert "        - |\n          if true; then\n            exec perfkit bench\n          fi\n" in text


def test_without_yaml_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(UnavailableError, match=r"'perfkit\[kubernetes\]'$") as error:
        build_manifest(TWO, "")
    assert error.value.id == "skip.package"
