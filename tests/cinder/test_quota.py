# SPDX-License-Identifier: Apache-2.0
"""Cinder with Tonnage's quota driver: its operations, and clients at one limit."""

import ast
import concurrent.futures
import os
import pathlib
import subprocess
from collections.abc import Iterator

import pytest

from tests.cinder import operations, quota_site, sites
from tests.cinder.operations import action
from tests.cinder.quota_load import OTHER
from tests.cinder.quota_site import QuotaSite
from tests.servers import MariaDB, RabbitMQ
from tests.servers.base import wait_for
from tests.servers.cinder import HOME
from tonnage.extensions.cinder.quota import quota_operations

#: Rounds of clients at one limit.
ROUNDS = int(os.environ.get("TONNAGE_CINDER_ROUNDS", "2"))

CLIENTS, ROOM = 32, 10

#: The use of a project that has nothing.
NOTHING = dict.fromkeys(("volumes", "gigabytes", "snapshots", "backups", "backup_gigabytes", "groups"), 0)

#: Functions of Cinder that reserve, without those of :data:`quota_operations.CALLERS`: what they reserve is below zero,
#: or a function around them is in that list.
_OTHERS = {
    ("cinder.backup.manager", "BackupManager.delete_backup"),
    ("cinder.group.api", "API.update_quota"),
    ("cinder.transfer.api", "API._handle_snapshot_quota"),
    ("cinder.volume.api", "API.delete"),
    ("cinder.volume.flows.api.create_volume", "QuotaCommitTask.revert"),
    ("cinder.volume.flows.manager.manage_existing_snapshot", "QuotaCommitTask.revert"),
    ("cinder.volume.manager", "VolumeManager.delete_group"),
    ("cinder.volume.manager", "VolumeManager.delete_group_snapshot"),
    ("cinder.volume.manager", "VolumeManager.delete_snapshot"),
    ("cinder.volume.manager", "VolumeManager.delete_volume"),
}


@pytest.fixture(scope="module")
def whole_site(mariadb_server: MariaDB, rabbitmq_server: RabbitMQ) -> Iterator[QuotaSite]:
    with quota_site.site(mariadb_server, rabbitmq_server) as site:
        yield site


@pytest.fixture
def site(whole_site: QuotaSite) -> Iterator[QuotaSite]:
    """The site, whose quotas agree with its rows after the test, and which is empty then."""
    yield whole_site
    whole_site.agree()
    cinder = whole_site.cinder
    for snapshot in cinder.request("GET", "/snapshots")["snapshots"]:
        cinder.request("DELETE", f"/snapshots/{snapshot['id']}")
    wait_for(lambda: not cinder.request("GET", "/snapshots")["snapshots"], "all snapshots are gone")
    for volume_id in cinder.volumes():
        action(cinder, volume_id, "os-force_delete", {})
    wait_for(lambda: not cinder.volumes(), "all volumes are gone")
    whole_site.limit(volumes=-1, gigabytes=-1)
    whole_site.agree()


def _reserving_functions(package: pathlib.Path) -> set[tuple[str, str]]:
    """Return the functions of a Cinder that call ``reserve`` of quotas, by module and name."""
    functions = set()

    def visit(node: ast.AST, module: str, names: tuple[str, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            inner = (*names, child.name) if isinstance(child, (ast.ClassDef, ast.FunctionDef)) else names
            match child:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="QUOTAS" | "GROUP_QUOTAS"), attr="reserve")):
                    functions.add((module, ".".join(names)))
            visit(child, module, inner)

    for file in package.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if "QUOTAS.reserve" in text and "tests" not in file.parts:
            module = ".".join(file.relative_to(package.parent).with_suffix("").parts)
            visit(ast.parse(text), module, ())
    return functions


def test_each_function_that_reserves_is_known() -> None:
    sites.require_cinder()
    [package] = HOME.glob("lib/python3*/site-packages/cinder")
    # The first calls a function that reserves; the others are names of functions in releases.
    around = {("cinder.volume.manager", "VolumeManager.manage_existing"), ("cinder.transfer.api", "API.accept")}
    functions = _reserving_functions(package)
    assert functions - {("cinder.transfer.api", "API.accept")} == (set(quota_operations.CALLERS) | _OTHERS) - around


def test_the_driver_imports_no_library_that_cinder_does_not_have() -> None:
    sites.require_cinder()
    program = (
        "import sys, cinder.quota\n"
        "before = set(sys.modules)\n"
        "import tonnage.extensions.cinder.quota.driver\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)\n"
        "print(sorted(new & {'numpy', 'lark', 'msgspec', 'alembic'}))\n"
        "print(sorted(n for n in sys.modules if n.startswith('tonnage.') and n.split('.')[1] not in "
        "('extensions', 'capacity')))\n"
    )
    environment = {"OS_CINDER_DISABLE_EVENTLET_PATCHING": "1", "PYTHONWARNINGS": "ignore"}
    command = [HOME / "bin" / "python", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.splitlines() == ["[]", "[]"]


def test_volumes_count_while_they_are_there(site: QuotaSite) -> None:
    volumes = [site.cinder.create(2) for _ in range(3)]
    assert site.rows()["gigabytes"] == 6
    assert site.drift() == {}
    assert site.reservations() == 0
    site.cinder.settled(volumes)
    site.limit(volumes=3)
    with pytest.raises(ValueError, match="VolumeLimitExceeded: Maximum number of volumes allowed"):
        site.cinder.create(1)
    site.limit(volumes=4, gigabytes=7)
    with pytest.raises(ValueError, match=r"VolumeSizeExceedsAvailableQuota.*Requested 2G, quota is 7G and 6G has been"):
        site.cinder.create(2)
    action(site.cinder, volumes[0], "os-force_delete", {})
    wait_for(lambda: site.rows()["volumes"] == 2, "the volume is gone")
    assert site.drift() == {}
    site.cinder.create(2)


def test_an_extension_counts_from_its_request_to_its_end(site: QuotaSite) -> None:
    volume_id = site.cinder.create(1)
    site.cinder.settled([volume_id])
    site.limit(gigabytes=5)
    site.cinder.end_service("volume")
    action(site.cinder, volume_id, "os-extend", {"new_size": 4})
    wait_for(lambda: site.quotas()["gigabytes"]["reserved"] == 3, "the extension is reserved")
    with pytest.raises(ValueError, match="VolumeSizeExceedsAvailableQuota"):
        site.cinder.create(2)
    site.cinder.create(1)
    site.cinder.start_service("volume", "cinder-volume", patched=False)
    wait_for(lambda: site.cinder.volumes()[volume_id]["size"] == 4, "the volume has grown")
    site.agree()
    assert site.quotas()["gigabytes"]["in_use"] == 5


def test_a_reset_ends_the_reservation_of_an_extension(site: QuotaSite) -> None:
    volume_id = site.cinder.create(1)
    site.cinder.settled([volume_id])
    site.cinder.end_service("volume")
    action(site.cinder, volume_id, "os-extend", {"new_size": 4})
    assert site.quotas()["gigabytes"]["reserved"] == 3
    action(site.cinder, volume_id, "os-reset_status", {"status": "available"})
    assert site.quotas()["gigabytes"] == {"limit": -1, "in_use": 1, "reserved": 0}
    site.cinder.start_service("volume", "cinder-volume", patched=False)
    wait_for(lambda: site.cinder.volumes()[volume_id]["size"] == 4, "the volume has grown after all")


def test_a_project_without_limits_gets_all(site: QuotaSite) -> None:
    site.limit(volumes=-1, gigabytes=-1)
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
        volumes = list(clients.map(site.cinder.create, [5] * CLIENTS))
    assert site.rows() == {**NOTHING, "volumes": CLIENTS, "gigabytes": 5 * CLIENTS}
    assert site.quotas()["gigabytes"] == {"limit": -1, "in_use": 5 * CLIENTS, "reserved": 0}
    site.cinder.settled(volumes)


def test_a_limit_below_the_use_admits_only_what_takes_nothing_more(site: QuotaSite) -> None:
    volumes = [site.cinder.create(2) for _ in range(3)]
    site.cinder.settled(volumes)
    site.limit(volumes=2, gigabytes=4)
    for request in (
        lambda: site.cinder.create(1),
        lambda: action(site.cinder, volumes[0], "os-extend", {"new_size": 3}),
        lambda: site.cinder.request("POST", "/snapshots", {"snapshot": {"volume_id": volumes[0]}}),
    ):
        with pytest.raises(ValueError, match="xceed"):
            request()
    assert site.quotas()["volumes"] == {"limit": 2, "in_use": 3, "reserved": 0}
    path = f"/os-quota-sets/{site.cinder.shape.project}"
    with pytest.raises(ValueError, match="Current usage is 3 and the requested limit is 1"):
        site.cinder.request("PUT", path, {"quota_set": {"volumes": 1}})
    for volume_id in volumes[:2]:
        site.cinder.request("DELETE", f"/volumes/{volume_id}")
    wait_for(lambda: site.rows()["volumes"] == 1, "the volumes are gone")
    site.cinder.create(2)
    with pytest.raises(ValueError, match="xceed"):
        site.cinder.create(1)


def test_classes_have_the_limits_of_projects_without_their_own(site: QuotaSite) -> None:
    cinder, path = site.cinder, f"/os-quota-sets/{site.cinder.shape.project}"

    def limit_class(name: str, volumes: int) -> None:
        cinder.request("PUT", f"/os-quota-class-sets/{name}", {"quota_class_set": {"volumes": volumes}})

    cinder.request("DELETE", path)
    limit_class("default", 1)
    limit_class("gold", 7)
    try:
        cinder.create(1)
        with pytest.raises(ValueError, match="VolumeLimitExceeded"):
            cinder.create(1)
        assert cinder.request("GET", "/os-quota-class-sets/gold")["quota_class_set"]["volumes"] == 7
        assert site.quotas()["volumes"] == {"limit": 1, "in_use": 1, "reserved": 0}
        cinder.request("PUT", path, {"quota_set": {"volumes": 2}})
        cinder.create(1)
        limit_class("default", -1)
        with pytest.raises(ValueError, match="VolumeLimitExceeded"):
            cinder.create(1)
        cinder.request("DELETE", path)
        cinder.create(1)
        assert site.quotas()["volumes"] == {"limit": -1, "in_use": 3, "reserved": 0}
    finally:
        limit_class("default", -1)


def test_a_retype_and_a_renamed_type(site: QuotaSite) -> None:
    types = {}
    for name in ("gold", "silver"):
        types[name] = site.cinder.request("POST", "/types", {"volume_type": {"name": name}})["volume_type"]["id"]
    volumes = [site.cinder.create(1, volume_type="gold") for _ in range(3)]
    site.cinder.settled(volumes)
    site.limit(volumes_silver=1)
    action(site.cinder, volumes[0], "os-retype", {"new_type": "silver", "migration_policy": "never"})
    with pytest.raises(ValueError, match="VolumeLimitExceeded"):
        action(site.cinder, volumes[1], "os-retype", {"new_type": "silver", "migration_policy": "never"})
    wait_for(lambda: site.of_type("silver") == 1, "the volume has its type")
    site.agree()
    body = {"volume_type": {"name": "iron", "description": "", "is_public": True}}
    site.cinder.request("PUT", f"/types/{types['silver']}", body)
    site.limit(volumes_silver=-1, volumes_iron=2)
    assert site.quotas()["volumes_iron"] == {"limit": 2, "in_use": 1, "reserved": 0}
    assert site.quotas()["volumes_gold"]["in_use"] == 2
    action(site.cinder, volumes[1], "os-retype", {"new_type": "iron", "migration_policy": "never"})
    wait_for(lambda: site.of_type("iron") == 2, "the second volume has its type")
    with pytest.raises(ValueError, match="VolumeLimitExceeded"):
        action(site.cinder, volumes[2], "os-retype", {"new_type": "iron", "migration_policy": "never"})


def test_snapshots_and_groups(site: QuotaSite) -> None:
    kind = operations.on(site.cinder, "b1")
    group = operations.group(site.cinder, kind)
    members = [operations.member(site.cinder, group, 2) for _ in range(2)]
    site.cinder.settled(members)
    assert site.quotas()["groups"]["in_use"] == 1
    snapshot = operations.group_snapshot(site.cinder, group)
    assert site.rows()["gigabytes"] == 8
    site.agree()
    operations.remove_group_snapshot(site.cinder, snapshot)
    operations.remove_group(site.cinder, group)
    assert site.quotas()["groups"] == {"limit": 10, "in_use": 0, "reserved": 0}


def test_a_managed_volume_counts_its_size(site: QuotaSite) -> None:
    volume_id = site.cinder.create(3)
    [volume] = site.cinder.settled([volume_id]).values()
    action(site.cinder, volume_id, "os-unmanage", {})
    wait_for(lambda: not site.cinder.volumes(), "the volume is not managed")
    site.agree()
    body = {"host": volume["os-vol-host-attr:host"], "ref": {"source-name": volume_id}}
    made = site.cinder.request("POST", "/os-volume-manage", {"volume": body})["volume"]["id"]
    [managed] = site.cinder.settled([made]).values()
    assert (managed["status"], managed["size"]) == ("available", 3)
    assert site.rows() == {**NOTHING, "volumes": 1, "gigabytes": 3}


def test_a_transfer_moves_the_use(site: QuotaSite) -> None:
    volume_id = site.cinder.create(3)
    site.cinder.settled([volume_id])
    made = site.cinder.request("POST", "/os-volume-transfer", {"transfer": {"volume_id": volume_id}})["transfer"]
    taker = quota_site.client_of(site.cinder, OTHER)
    site.limit(project=OTHER, gigabytes=2)
    path, body = f"/os-volume-transfer/{made['id']}/accept", {"accept": {"auth_key": made["auth_key"]}}
    with pytest.raises(ValueError, match="Requested 3G, quota is 2G and 0G has been consumed"):
        taker.request("POST", path, body)
    site.limit(project=OTHER, gigabytes=3)
    taker.request("POST", path, body)
    assert site.rows() == NOTHING
    assert site.quotas(OTHER)["gigabytes"] == {"limit": 3, "in_use": 3, "reserved": 0}
    assert site.drift() == {}


@pytest.mark.parametrize("database", ["mariadb", "postgresql"])
def test_a_transfer_that_takes_longer_than_its_reservation_exceeds_no_limit(
    database: str, request: pytest.FixtureRequest, rabbitmq_server: RabbitMQ
) -> None:
    """Its volume fits once more, or it is refused, if another request has got the room meanwhile."""
    server = request.getfixturevalue(f"{database}_server")
    with (
        quota_site.site(server, rabbitmq_server, lifetime=10, rpc_response_timeout="60") as site,
        concurrent.futures.ThreadPoolExecutor(1) as clients,
    ):
        taker = quota_site.client_of(site.cinder, OTHER)
        site.limit(project=OTHER, volumes=2)
        site.cinder.control("b1", accept_seconds=18)
        outcomes = []
        for is_room_taken in (False, True):
            volume_id = site.cinder.create(1)
            site.cinder.settled([volume_id])
            body = {"transfer": {"volume_id": volume_id}}
            transfer = site.cinder.request("POST", "/os-volume-transfer", body)["transfer"]
            path, body = f"/os-volume-transfer/{transfer['id']}/accept", {"accept": {"auth_key": transfer["auth_key"]}}
            accepted = clients.submit(taker.request, "POST", path, body)
            if is_room_taken:
                wait_for(lambda: site.quotas(OTHER)["volumes"]["reserved"] == 1, "the transfer is reserved")
                with pytest.raises(ValueError, match="VolumeLimitExceeded"):
                    taker.create(1)
                wait_for(lambda: site.quotas(OTHER)["volumes"]["reserved"] == 0, "the reservation has ended")
                taker.create(1)
            outcomes.append(str(accepted.exception(60)))
            assert site.rows(OTHER)["volumes"] == len(outcomes)
        assert outcomes[0] == "None"
        assert "413" in outcomes[1]
        assert "by now the limit of volumes would be exceeded" in outcomes[1]
        site.agree([None, OTHER])


@pytest.mark.parametrize("database", ["mariadb", "postgresql"])
def test_clients_at_one_limit_get_exactly_the_limit(
    database: str, request: pytest.FixtureRequest, rabbitmq_server: RabbitMQ
) -> None:
    server = request.getfixturevalue(f"{database}_server")
    with quota_site.site(server, rabbitmq_server, lifetime=60, osapi_volume_workers="3") as site:

        def create(_: int) -> str:
            try:
                return "created" if site.cinder.create(1) else ""
            except ValueError as error:
                return str(error)

        for number in range(1, ROUNDS + 1):
            site.limit(volumes=ROOM * number, gigabytes=ROOM * number + 3)
            with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
                outcomes = list(clients.map(create, range(CLIENTS)))
            refused = [outcome for outcome in outcomes if outcome != "created"]
            assert len(refused) == CLIENTS - ROOM, refused
            assert [outcome for outcome in refused if "VolumeLimitExceeded" not in outcome] == []
            assert site.rows()["volumes"] == ROOM * number
            assert site.drift() == {}
            assert site.reservations() == 0
