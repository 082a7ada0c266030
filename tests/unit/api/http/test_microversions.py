# SPDX-License-Identifier: Apache-2.0
"""The microversion of a request."""

from typing import Any

import falcon
import pytest
from falcon import testing

from tests.unit.api.cluster import Client
from tonnage.api.http import microversions
from tonnage.api.http.http_request import Request
from tonnage.capacity import errors


def process(version: str | None, path: str = "/v3/demo/volumes") -> tuple[Request, falcon.Response]:
    headers = {} if version is None else {"OpenStack-API-Version": version}
    request = Request(testing.create_environ(path=path, headers=headers))
    response = falcon.Response()
    microversions.MicroversionMiddleware().process_request(request, response)
    return request, response


#: The keys of Cinder's bodies at 3.71, by the path and the keys that lead to an object of the answer. Capabilities of
#: pools are those that every driver may report.
KEYS_OF_CINDER = {
    ("volumes/detail", "volumes"): """
        attachments availability_zone bootable cluster_name consistencygroup_id consumes_quota created_at description
        encrypted encryption_key_id group_id id links metadata migration_status multiattach name
        os-vol-host-attr:host os-vol-mig-status-attr:migstat os-vol-mig-status-attr:name_id
        os-vol-tenant-attr:tenant_id provider_id replication_status service_uuid shared_targets size snapshot_id
        source_volid status updated_at user_id volume_image_metadata volume_type volume_type_id
    """,
    ("os-services", "services"): """
        active_backend_id backend_state binary cluster disabled_reason frozen host replication_status state status
        updated_at zone
    """,
    ("scheduler-stats/get_pools?detail=true", "pools"): "name capabilities",
    ("scheduler-stats/get_pools?detail=true", "pools.capabilities"): """
        QoS_support allocated_capacity_gb backend_state driver_version filter_function free_capacity_gb
        goodness_function location_info max_over_subscription_ratio multiattach pool_name provisioned_capacity_gb
        reserved_percentage storage_protocol thick_provisioning_support thin_provisioning_support timestamp
        total_capacity_gb updated vendor_name volume_backend_name
    """,
    ("types", "volume_types"): """
        description extra_specs id is_public name os-volume-type-access:is_public qos_specs_id
    """,
    ("limits", "limits.absolute"): """
        maxTotalBackupGigabytes maxTotalBackups maxTotalSnapshots maxTotalVolumeGigabytes maxTotalVolumes
        totalBackupGigabytesUsed totalBackupsUsed totalGigabytesUsed totalSnapshotsUsed totalVolumesUsed
    """,
}


@pytest.mark.parametrize(("path", "keys"), KEYS_OF_CINDER, ids=lambda text: text.partition("?")[0])
def test_a_key_of_tonnage_is_in_no_body_below_its_version(client: Client, path: str, keys: str) -> None:
    client.create(1)
    objects = [client.at("GET", f"/v3/{path}", 71).json]
    for key in keys.split("."):
        values = [item[key] for item in objects]
        objects = [item for value in values for item in (value if isinstance(value, list) else [value])]
    assert objects
    assert {key for item in objects for key in item} - set(KEYS_OF_CINDER[path, keys].split()) == set()


@pytest.mark.parametrize(
    ("version", "served"),
    [(None, "3.0"), ("volume 3.72", "3.72"), ("volume latest", "3.73"), ("compute 2.90", "3.0")],
)
def test_a_request_has_the_version_that_it_names_or_the_first(version: str | None, served: str) -> None:
    request, response = process(version)
    assert str(request.context.version) == served
    assert response.get_header("OpenStack-API-Version") == f"volume {served}"
    assert response.get_header("Vary") == "OpenStack-API-Version"
    assert not response.complete


@pytest.mark.parametrize("version", ["volume 3.74", "volume 2.1", "volume 4.0"])
def test_a_version_that_is_not_there_is_not_acceptable(version: str) -> None:
    _, response = process(version)
    assert (response.status, response.complete) == ("406 Not Acceptable", True)
    assert b"Minimum is 3.0 and maximum is 3.73" in (response.data or b"")


def test_a_malformed_version_is_a_bad_request() -> None:
    with pytest.raises(falcon.HTTPBadRequest) as caught:
        process("volume three")
    assert caught.value.description == "API version 'three' is malformed: expected MAJOR.MINOR or latest."


def test_paths_of_no_version_have_no_header() -> None:
    _, response = process("volume 9.9", path="/healthcheck")
    assert (response.get_header("Vary"), response.complete) == (None, False)


def test_a_newer_resource_is_not_there_for_an_older_version() -> None:
    older: Any = process("volume 3.12")[0]
    microversions.require(older, 12)
    with pytest.raises(errors.NotFound, match="The resource could not be found"):
        microversions.require(older, 13)
