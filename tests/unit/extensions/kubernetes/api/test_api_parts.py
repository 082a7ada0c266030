# SPDX-License-Identifier: Apache-2.0
"""The routes for clusters, and the status of an outdated patch."""

from tests.unit.api.cluster import Client, parts
from tonnage.capacity import errors
from tonnage.extensions.kubernetes.capacity.driver_rows import VersionConflict


def test_a_patch_of_an_outdated_version_is_a_conflict_of_its_own() -> None:
    """The core answers other conflicts with 400, as Cinder does."""
    [_, kubernetes] = parts("kubernetes")
    assert issubclass(VersionConflict, errors.Conflict)
    assert kubernetes.statuses == {VersionConflict: 409}


def test_the_list_of_drivers_and_a_missing_driver_are_served(client: Client) -> None:
    assert client.simulate_get("/v3/csi-drivers").status_code == 200
    assert client.simulate_get("/v3/csi-drivers/nowhere.example.org").status_code == 404
    assert client.simulate_get("/v3/csi-capacity/claims/nobody").status_code == 200
