# SPDX-License-Identifier: Apache-2.0
"""Asking Nova where instances run, over HTTP."""

import pathlib
from collections.abc import Callable
from collections.abc import Iterator

import pytest
from oslo_config import cfg

from tests.servers import openstack
from tests.servers.base import free_port
from tests.servers.openstack import Answer
from tests.servers.openstack import Cloud
from tonnage.capacity import errors
from tonnage.capacity.request import Locality
from tonnage.scheduler import nova

#: The same in each process: workers that run tests side by side have to know them by the same names.
INSTANCE = "0d1f1c52-4f0e-4f0b-9a0b-6d3f8a1c2e77"


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
    asking = configured(cloud.options | more)
    assert asking is not None
    return asking.locality(INSTANCE)


def test_where_an_instance_runs(configured: Callable[..., nova.Nova | None], cloud: Cloud) -> None:
    asking = configured(cloud.options)
    assert asking is not None
    assert asking.timeout == 5
    cloud.answers[INSTANCE] = openstack.shown(INSTANCE, "compute1")
    assert asking.locality(INSTANCE) == Locality("compute1")
    # It is asked each time, as instances move.
    cloud.answers[INSTANCE] = openstack.shown(INSTANCE, "compute2")
    assert asking.locality(INSTANCE) == Locality("compute2")
    assert (len(cloud.asked), cloud.logins) == (2, 1)
    # A token that has become invalid is replaced.
    cloud.tokens.clear()
    assert asking.locality(INSTANCE) == Locality("compute2")
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
        (openstack.forbidden(), "compute_not_permitted", f"Nova does not let Tonnage see instance {INSTANCE}"),
        (
            openstack.hidden(INSTANCE),
            "compute_not_permitted",
            "Nova does not tell Tonnage on which hosts instances run",
        ),
        (openstack.shown(INSTANCE, None), "instance_without_host", f"instance {INSTANCE} is on no host yet"),
        (openstack.broken(), "compute_unavailable", "Nova does not answer"),
        ((200, "<html>Welcome</html>"), "compute_unavailable", "Nova does not answer"),
        ((200, {"servers": []}), "compute_unavailable", "Nova does not answer"),
        ((200, {"server": {"OS-EXT-SRV-ATTR:host": 5}}), "compute_unavailable", "Nova does not answer"),
    ],
)
def test_what_else_nova_says(
    configured: Callable[..., nova.Nova | None], cloud: Cloud, answer: Answer | None, code: str, problem: str
) -> None:
    if answer is not None:
        cloud.answers[INSTANCE] = answer
    assert ask(configured, cloud) == Locality(None, code, problem)


def test_an_account_that_keystone_does_not_know(configured: Callable[..., nova.Nova | None], cloud: Cloud) -> None:
    found = ask(configured, cloud, password="wrong")  # noqa: S106
    assert (found.code, found.problem) == (
        "compute_not_permitted",
        "Keystone does not accept the account that the section [nova] names",
    )


def test_a_region_that_is_not_in_the_catalog(configured: Callable[..., nova.Nova | None], cloud: Cloud) -> None:
    found = ask(configured, cloud, region_name="west")
    assert found.code == "compute_unavailable"
    assert "no such endpoint of Nova" in found.problem


def test_nobody_listens(configured: Callable[..., nova.Nova | None], cloud: Cloud) -> None:
    found = ask(configured, cloud, auth_url=f"http://127.0.0.1:{free_port()}/v3")
    assert (found.host, found.code) == (None, "compute_unavailable")
    assert found.problem == "Keystone, which Nova is asked through, does not answer"


def test_without_an_account_there_is_nobody_to_ask(
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
