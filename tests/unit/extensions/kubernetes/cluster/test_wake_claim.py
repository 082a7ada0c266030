# SPDX-License-Identifier: Apache-2.0
"""The claim whose changes wake kube-scheduler."""

import pathlib
from collections.abc import Iterator

import pytest
from kubernetes import client

from tests.servers.kube_api import KubeApi
from tonnage.capacity import errors
from tonnage.extensions.kubernetes.cluster import api_connection
from tonnage.extensions.kubernetes.cluster.pod_volumes import ClusterUnavailable
from tonnage.extensions.kubernetes.cluster.wake_claim import WakeClaim


@pytest.fixture
def kube() -> Iterator[KubeApi]:
    with KubeApi() as api:
        yield api


@pytest.fixture
def api(kube: KubeApi, tmp_path: pathlib.Path) -> Iterator[client.ApiClient]:
    with api_connection.connect(kube.kubeconfig(tmp_path)) as connection:
        yield connection


def test_each_change_is_written(kube: KubeApi, api: client.ApiClient) -> None:
    kube.add_claim("wake", "1", "none")
    for _ in range(2):
        WakeClaim(api, "default/wake").change()
    assert kube.written == [("PATCH", "wake")] * 2


def test_a_missing_claim_is_named(api: client.ApiClient) -> None:
    with pytest.raises(
        ClusterUnavailable, match=r"claim default/gone of .* extender_wake_claim cannot be changed: Not"
    ):
        WakeClaim(api, "default/gone").change()


@pytest.mark.parametrize("name", ["wake", "/wake", "default/", "a/b/c"])
def test_a_name_without_a_namespace_is_refused(api: client.ApiClient, name: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=f"extender_wake_claim = {name}: expected namespace/name"):
        WakeClaim(api, name)
