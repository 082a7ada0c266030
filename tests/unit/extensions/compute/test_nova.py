# SPDX-License-Identifier: Apache-2.0
"""Asking Nova where instances run, over HTTP."""

import pathlib
from collections.abc import Callable, Iterator

import pytest
from oslo_config import cfg

from tests.servers import openstack
from tests.servers.base import free_port
from tests.servers.openstack import Answer, Cloud
from tonnage.capacity import errors
from tonnage.capacity.request import Locality
from tonnage.extensions.compute import nova

#: The same in each process: workers that run tests side by side have to know them by the same names.
INSTANCE = "0d1f1c52-4f0e-4f0b-9a0b-6d3f8a1c2e77"

#: The test is Nova as well, and may stand still.
PATIENT = {"timeout": "120"}

#: What users read whatever is wrong between the scheduler, Keystone and Nova; the log says more.
CANNOT_BE_ASKED = f"the compute service (Nova) cannot be asked where instance {INSTANCE} runs"


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with Cloud() as cloud:
        yield cloud


@pytest.fixture
def configured(tmp_path: pathlib.Path) -> Callable[..., nova.Nova | None]:
    """Return what makes of a section [nova] what asks."""

    def make(section: dict[str, str] | None) -> nova.Nova | None:
        file = tmp_path / "tonnage.conf"
        lines = [] if section is None else ["[nova]", *(f"{key} = {value}" for key, value in section.items())]
        file.write_text("\n".join(["[DEFAULT]", *lines]))
        conf = cfg.ConfigOpts()
        conf(["--config-file", str(file)])
        return nova.from_conf(conf)

    return make


def ask(configured: Callable[..., nova.Nova | None], cloud: Cloud, **more: str) -> Locality:
    asking = configured(cloud.options | PATIENT | more)
    assert asking is not None
    return asking.locality(INSTANCE, openstack.TENANT)


def test_where_an_instance_runs(configured: Callable[..., nova.Nova | None], cloud: Cloud) -> None:
    default = configured(cloud.options)
    assert default is not None
    assert default.timeout == 5
    asking = configured(cloud.options | PATIENT)
    assert asking is not None
    cloud.answers[INSTANCE] = openstack.shown(INSTANCE, "compute1")
    assert asking.locality(INSTANCE, openstack.TENANT) == Locality("compute1")
    # It is asked each time, as instances move.
    cloud.answers[INSTANCE] = openstack.shown(INSTANCE, "compute2")
    assert asking.locality(INSTANCE, openstack.TENANT) == Locality("compute2")
    assert (len(cloud.asked), cloud.logins) == (2, 1)
    # A token that has become invalid is replaced.
    cloud.tokens.clear()
    assert asking.locality(INSTANCE, openstack.TENANT) == Locality("compute2")
    assert cloud.logins == 2


@pytest.mark.parametrize("region", openstack.REGIONS)
@pytest.mark.parametrize("interface", openstack.INTERFACES)
def test_the_endpoint_that_the_section_names(
    configured: Callable[..., nova.Nova | None], cloud: Cloud, region: str, interface: str
) -> None:
    cloud.answers[INSTANCE] = openstack.shown(INSTANCE, "compute1")
    assert ask(configured, cloud, region_name=region, interface=interface).host == "compute1"
    assert [(asked.region, asked.interface) for asked in cloud.asked] == [(region, interface)]


@pytest.mark.parametrize(
    ("answer", "code", "problem"),
    [
        (None, "instance_not_found", f"Nova knows no instance {INSTANCE}"),
        (openstack.forbidden(), "compute_not_permitted", CANNOT_BE_ASKED),
        (openstack.hidden(INSTANCE), "compute_not_permitted", CANNOT_BE_ASKED),
        (openstack.shown(INSTANCE, None), "instance_without_host", f"instance {INSTANCE} is on no host yet"),
        (openstack.broken(), "compute_unavailable", CANNOT_BE_ASKED),
        ((200, "<html>Welcome</html>"), "compute_unavailable", CANNOT_BE_ASKED),
        ((200, {"servers": []}), "compute_unavailable", CANNOT_BE_ASKED),
        ((200, {"server": {"tenant_id": "t", "OS-EXT-SRV-ATTR:host": 5}}), "compute_unavailable", CANNOT_BE_ASKED),
        ((200, {"server": {"OS-EXT-SRV-ATTR:host": "compute1"}}), "compute_unavailable", CANNOT_BE_ASKED),
    ],
)
def test_unusual_answers_of_nova(
    configured: Callable[..., nova.Nova | None], cloud: Cloud, answer: Answer | None, code: str, problem: str
) -> None:
    if answer is not None:
        cloud.answers[INSTANCE] = answer
    assert ask(configured, cloud) == Locality(None, code, problem)


@pytest.mark.parametrize("host", ["compute1", None])
def test_an_instance_of_another_project_is_not_there(
    configured: Callable[..., nova.Nova | None], cloud: Cloud, host: str | None
) -> None:
    unknown = ask(configured, cloud)
    cloud.answers[INSTANCE] = openstack.shown(INSTANCE, host, "another")
    assert ask(configured, cloud) == unknown
    # Whatever says whose it is; a request of no project has no instances.
    owned = {"project_id": "another", "tenant_id": openstack.TENANT, "OS-EXT-SRV-ATTR:host": host}
    cloud.answers[INSTANCE] = 200, {"server": owned}
    assert ask(configured, cloud) == unknown
    cloud.answers[INSTANCE] = openstack.shown(INSTANCE, host, "")
    asking = configured(cloud.options | PATIENT)
    assert asking is not None
    assert asking.locality(INSTANCE, "").host is None


def test_a_nova_that_calls_projects_by_their_new_name(
    configured: Callable[..., nova.Nova | None], cloud: Cloud
) -> None:
    cloud.answers[INSTANCE] = 200, {"server": {"project_id": openstack.TENANT, "OS-EXT-SRV-ATTR:host": "compute1"}}
    assert ask(configured, cloud) == Locality("compute1")


def test_an_account_that_keystone_does_not_know(
    configured: Callable[..., nova.Nova | None], cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    found = ask(configured, cloud, password="wrong")  # noqa: S106
    assert found == Locality(None, "compute_not_permitted", CANNOT_BE_ASKED)
    assert "Keystone does not accept the account that the section [nova] names" in caplog.text


def test_a_region_that_is_not_in_the_catalog(
    configured: Callable[..., nova.Nova | None], cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    assert ask(configured, cloud, region_name="west") == Locality(None, "compute_unavailable", CANNOT_BE_ASKED)
    assert "has no endpoint of Nova like that of the section [nova]" in caplog.text


def test_nobody_listens(
    configured: Callable[..., nova.Nova | None], cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    found = ask(configured, cloud, auth_url=f"http://127.0.0.1:{free_port()}/v3")
    assert found == Locality(None, "compute_unavailable", CANNOT_BE_ASKED)
    assert "Keystone cannot be asked for Nova" in caplog.text


def test_without_an_account_there_is_no_client_of_nova(
    configured: Callable[..., nova.Nova | None], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert configured(None) is None
    assert not caplog.records
    assert configured({"region_name": "north"}) is None
    assert "has no auth_type" in caplog.text
    monkeypatch.setenv("OS_NOVA__AUTH_TYPE", "none")
    assert configured(None) is not None


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ({"auth_type": "passwort"}, "passwort"),
        ({"auth_type": "password"}, "auth_url"),
        ({"auth_type": "none", "interface": "secret"}, "secret"),
        ({"auth_type": "none", "timeout": "0"}, "timeout is 0"),
        ({"auth_type": "none", "timeout": "soon"}, "soon"),
    ],
)
def test_a_section_that_cannot_be_used_stops_the_start(
    configured: Callable[..., nova.Nova | None], section: dict[str, str], problem: str
) -> None:
    with pytest.raises(errors.ConfigurationError) as caught:
        configured(section)
    assert "[nova]" in caught.value.message
    assert problem in caught.value.message
