# SPDX-License-Identifier: Apache-2.0
"""Tempest's tests of the Block Storage API against ``tonnage-standalone`` with a real Keystone."""

from collections.abc import Iterator

import pytest

from tests import suites
from tests.functional.deployment import Credentials, Deployment, standalone
from tests.servers.keystone import Keystone
from tests.tempest import workspace
from tests.tempest.workspace import Workspace

#: The number of tests that pass; fewer would mean that a class could not be selected any more.
PASSED = 133

BACKENDS = {name: {"filesystem_size_limit_gb": 50, "filesystem_provisioning": "thin"} for name in ("one", "two")}


@pytest.fixture(scope="module")
def tonnage(keystone_server: Keystone) -> Iterator[Deployment]:
    project_id = keystone_server.make_project("operators")
    keystone_server.make_user("operator", project_id, "admin")
    token = keystone_server.login("operator", {"project": {"id": project_id}})
    credentials = Credentials(keystone_server.options, token, project_id)
    # Tempest sets quotas of its projects and expects those of Cinder elsewhere.
    quotas = {"quota_volumes": 10, "quota_gigabytes": 1000}
    with standalone(BACKENDS, credentials=credentials, **quotas) as running:
        keystone_server.make_endpoint(f"{running.rest.url}/v3")
        yield running


@pytest.fixture(scope="module")
def tempest(keystone_server: Keystone, tonnage: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    if not workspace.installed():
        suites.cannot_run("Tempest", "Tempest is not installed; run tools/install-tempest.sh")
    folder = tmp_path_factory.mktemp("tempest")
    absent = ("horizon", "neutron", "nova", "swift")
    sections = {
        "DEFAULT": {"log_file": folder / "requests.log"},
        **workspace.sections_of_users(keystone_server),
        "oslo_concurrency": {"lock_path": folder},
        # Without Glance, classes that test more than images cannot be set up.
        "service_available": {"cinder": True, "glance": True, **dict.fromkeys(absent, False)},
        "volume": {
            "backend_names": ",".join(BACKENDS),
            "manage_volume_ref": "source-name,%s",
            "max_microversion": "latest",
            "min_microversion": "3.0",
            "storage_protocol": "file",
            "vendor_name": "Tonnage",
        },
        "volume-feature-enabled": {
            "backup": False,
            "clone": True,
            "manage_volume": True,
            "multi_backend": True,
            "snapshot": False,
        },
    }
    return Workspace(folder, sections)


def test_tempest_passes_but_for_features_that_tonnage_does_not_have(tempest: Workspace) -> None:
    results = tempest.run(r"^tempest\.api\.volume", processes=2)
    assert results.keys() <= {"success", "skip"}, tempest.failures()
    assert len(results["success"]) >= PASSED
    print(f"{len(results['success'])} tests passed; skipped by Tempest:", *sorted(results["skip"]), sep="\n  ")
