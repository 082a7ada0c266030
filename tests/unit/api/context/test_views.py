# SPDX-License-Identifier: Apache-2.0
"""Rows as bodies: what a user sees of them, and since which microversion."""

import datetime
from typing import Any

import msgspec
import pytest
from falcon import testing
from microversion_parse import Version
from oslo_context.context import RequestContext

from tests.unit.ledger.records import Records, new_id
from tonnage.api.context import views
from tonnage.api.context.views import ServiceView, VolumeView
from tonnage.api.http.http_request import Request
from tonnage.ledger import models
from tonnage.ledger.catalog import volumes
from tonnage.ledger.catalog.managed_volumes import Manageable
from tonnage.ledger.inventory.drains import DrainProgress
from tonnage.ledger.locks import heartbeats

NOON = datetime.datetime.fromisoformat("2026-01-02T12:00:00")


def request(minor: int = 72, project: str | None = "p") -> Request:
    received = Request(testing.create_environ("/v3/volumes", host="storage"))
    received.context.version = Version(3, minor)
    received.context.identity = RequestContext(user_id="u", project_id=project, overwrite=False)
    return received


def shown(body: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(body))


def volume_view(minor: int = 72, **rights: bool) -> VolumeView:
    allowed = dict.fromkeys(("host", "owner", "migration", "reasons", "admin"), False) | rights
    return VolumeView(request(minor), **allowed)


@pytest.fixture
def volume(records: Records) -> volumes.VolumeDetails:
    """A failed volume of the project ``p``."""
    volume_id = records.volume(
        records.pool(), project_id="p", status="error", status_reason="h@b is gone", migration_status="error"
    )
    with records.database.reading() as session:
        return volumes.get(session, volume_id, "p")


@pytest.fixture
def records() -> Records:
    return Records()


@pytest.mark.parametrize(("project", "part"), [("p", "p"), ("a b/c", "a%20b%2Fc"), (None, "")])
def test_a_link_has_the_name_of_the_project_as_a_part_of_a_path(project: str | None, part: str) -> None:
    links = views.links(request(project=project), "volumes", "v")
    assert [(link.rel, link.href) for link in links] == [
        ("self", f"http://storage/v3/{part}/volumes/v"),
        ("bookmark", f"http://storage/{part}/volumes/v"),
    ]


@pytest.mark.parametrize(
    ("moment", "text"),
    [(None, None), (NOON, "2026-01-02T12:00:00.000000"), (NOON.replace(microsecond=7), "2026-01-02T12:00:00.000007")],
)
def test_a_time_always_has_microseconds(moment: datetime.datetime | None, text: str | None) -> None:
    """Clients read it with one format."""
    assert views.time(moment) == text


def test_a_reason_without_details_names_no_backend() -> None:
    assert views.reason("h@b is gone", details=True) == "h@b is gone"
    assert views.reason("h@b is gone", details=False) == (
        "The operation has failed. An administrator can see the reason."
    )
    assert views.reason(None, details=False) is None


def test_each_right_shows_its_own_keys_of_a_volume(volume: volumes.VolumeDetails) -> None:
    plain = shown(volume_view().detail(volume)).keys()
    for right, keys in {
        "owner": {"os-vol-tenant-attr:tenant_id"},
        "host": {"os-vol-host-attr:host", "provider_id", "cluster_name"},
        "migration": {"os-vol-mig-status-attr:migstat", "os-vol-mig-status-attr:name_id"},
        "admin": {"migration_status"},
        "reasons": set(),
    }.items():
        assert shown(volume_view(**{right: True}).detail(volume)).keys() - plain == keys


def test_a_user_sees_that_a_volume_has_failed_and_an_administrator_why(volume: volumes.VolumeDetails) -> None:
    assert "h@b" not in str(shown(volume_view().detail(volume)))
    assert volume_view(reasons=True).detail(volume).status_reason == "h@b is gone"


@pytest.mark.parametrize(
    ("key", "since"),
    [
        ("group_id", 13),
        ("provider_id", 21),
        ("shared_targets", 48),
        ("cluster_name", 61),
        ("volume_type_id", 63),
        ("consumes_quota", 65),
        ("status_reason", 72),
    ],
)
def test_keys_of_a_volume_have_a_microversion(volume: volumes.VolumeDetails, key: str, since: int) -> None:
    assert key in shown(volume_view(since, host=True).detail(volume))
    assert key not in shown(volume_view(since - 1, host=True).detail(volume))


def test_a_failed_management_has_the_status_that_clients_of_cinder_wait_for(records: Records) -> None:
    volume_id = records.volume(project_id="p", status="error_managing")
    with records.database.reading() as session:
        volume = volumes.get(session, volume_id, "p")
    assert volume_view(71).managed(volume).status == "error"
    assert volume_view(72).managed(volume).status == "error_managing"


def backend(**values: Any) -> heartbeats.ServiceRow:
    usual = {
        "binary": heartbeats.AGENT,
        "host": "h@b",
        "availability_zone": "nova",
        "enabled": True,
        "disabled_reason": None,
        "last_seen_at": NOON,
        "silence": 10.0,
    }
    return heartbeats.ServiceRow(**usual | values)


@pytest.mark.parametrize(("silence", "state"), [(60.0, "up"), (60.1, "down"), (None, "down")])
def test_a_service_is_down_after_a_time_of_silence(silence: float | None, state: str) -> None:
    view = ServiceView(60, cinder_names=True)
    assert view.service(backend(silence=silence), request()).state == state
    assert view.host(backend(silence=silence)).status == {"up": "available", "down": "unavailable"}[state]


def test_a_backend_is_up_while_its_driver_reports_that_the_storage_is_down() -> None:
    service = ServiceView(60, cinder_names=True).service(backend(), request(), is_reported_down=True)
    assert (service.state, service.backend_state) == ("up", "down")
    assert service.state_reason is not None


@pytest.mark.parametrize(
    ("cinder_names", "names"),
    [(True, ["cinder-volume", "cinder-scheduler"]), (False, [heartbeats.AGENT, heartbeats.SCHEDULER])],
)
def test_binaries_have_the_names_of_cinder_or_their_own(cinder_names: bool, names: list[str]) -> None:
    view = ServiceView(60, cinder_names=cinder_names)
    rows = [backend(), backend(binary=heartbeats.SCHEDULER, host="h")]
    assert [view.service(row, request()).binary for row in rows] == names
    assert [view.host(row).service for row in rows] == names


def test_a_scheduler_has_no_keys_of_a_backend() -> None:
    view = ServiceView(60, cinder_names=True)
    keys = [
        shown(view.service(backend(binary=binary), request())).keys()
        for binary in (heartbeats.SCHEDULER, heartbeats.AGENT)
    ]
    assert keys[1] - keys[0] == {
        "replication_status", "active_backend_id", "frozen", "backend_state", "draining", "drain", "state_reason"
    }  # fmt: skip


def test_a_drain_tells_its_progress() -> None:
    view = ServiceView(60, cinder_names=True)
    drain = DrainProgress(volumes=3, moving=1, stuck=2, reasons=("too large",))
    service = view.service(backend(draining=True, enabled=False), request(), drain)
    assert shown(service)["drain"] == {"volumes": 3, "moving": 1, "cannot_move": 2, "reasons": ["too large"]}
    assert (service.status, service.draining) == ("disabled", True)


def test_usage_of_a_host_is_text() -> None:
    """As in Cinder, whose clients parse it."""
    assert shown(views.usage("h@b", "p", 2, 30)) == {
        "host": "h@b",
        "project": "p",
        "volume_count": "2",
        "total_volume_gb": "30",
        "snapshot_count": "0",
        "total_snapshot_gb": "0",
    }


def test_only_details_of_a_manageable_volume_have_its_pool() -> None:
    manageable = Manageable(reference="lun 7", size_gb=3, pool="h@b#p")
    assert "extra_info" not in shown(views.manageable(manageable, detail=False))
    assert shown(views.manageable(manageable, detail=True))["extra_info"] == "h@b#p"


def test_a_message_is_kept_for_a_month(records: Records) -> None:
    row = models.Message(id=new_id(), project_id="p", resource_id="v", event="e", text="h@b is gone")
    records.add(row)
    records.run(lambda session: session.add(row) or session.refresh(row))  # type: ignore[func-returns-value]
    plain, full = (views.message(request(), row, details=details) for details in (False, True))
    assert "h@b" not in plain.user_message
    assert full.user_message == "h@b is gone"
    assert full.created_at is not None
    assert full.guaranteed_until is not None
    times = [datetime.datetime.fromisoformat(text) for text in (full.created_at, full.guaranteed_until)]
    assert times[1] - times[0] == datetime.timedelta(days=30)


@pytest.mark.parametrize("is_public", [True, False])
def test_extra_specs_of_a_type_are_for_those_who_may_see_them(is_public: bool) -> None:
    row = models.VolumeType(id="t", name="gold", is_public=is_public, specs=[models.ExtraSpec(key="a", value="1")])
    hidden, open_to = (shown(views.volume_type(row, extra_specs=specs)) for specs in (False, True))
    assert "extra_specs" not in hidden
    assert "qos_specs_id" not in hidden
    assert open_to["extra_specs"] == {"a": "1"}
    assert open_to["is_public"] is open_to["os-volume-type-access:is_public"] is is_public
