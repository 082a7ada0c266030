# SPDX-License-Identifier: Apache-2.0
"""A process of the API: what it connects to, and the servers beside the API."""

import pathlib
from collections.abc import Callable

import pytest
import requests
from falcon import testing
from oslo_config import cfg

from tests.servers import kube_api, ledger_schema
from tests.unit.api.cluster import configuration
from tonnage.api.process import ApiProcess
from tonnage.capacity import errors
from tonnage.ledger.db import database
from tonnage.ledger.db import options as database_options


@pytest.fixture
def configured(tmp_path: pathlib.Path) -> Callable[..., cfg.ConfigOpts]:
    """A function that returns a configuration with a bus and a ledger. Arguments are lines from ``[metrics]`` on."""

    def conf(*lines: str, extensions: tuple[str, ...] = ()) -> cfg.ConfigOpts:
        file = tmp_path / "tonnage.conf"
        file.write_text(
            "\n".join(
                [
                    "[DEFAULT]",
                    "transport_url = kombu+memory://",
                    "[database]",
                    f"connection = sqlite:///{tmp_path}/ledger.sqlite",
                    "[metrics]",
                    *lines,
                ]
            )
        )
        options = configuration([str(file)], enabled_extensions=extensions)
        database_options.register(options)
        return options

    return conf


@pytest.fixture
def with_schema(tmp_path: pathlib.Path) -> None:
    engine = database.create_engine(f"sqlite:///{tmp_path}/ledger.sqlite")
    ledger_schema.create(engine)
    engine.dispose()


def test_a_database_without_a_schema_keeps_it_from_starting(configured: Callable[..., cfg.ConfigOpts]) -> None:
    with pytest.raises(errors.TonnageError, match="tonnage-manage db sync"):
        ApiProcess(configured(), "127.0.0.1")


def test_an_address_for_others_keeps_it_from_starting_before_it_opens_the_database(
    configured: Callable[..., cfg.ConfigOpts], tmp_path: pathlib.Path
) -> None:
    with pytest.raises(errors.ConfigurationError, match="noauth_on_any_address"):
        ApiProcess(configured(), "192.0.2.1")
    assert not (tmp_path / "ledger.sqlite").exists()


@pytest.mark.usefixtures("with_schema")
def test_the_application_answers_from_the_ledger(configured: Callable[..., cfg.ConfigOpts]) -> None:
    api = ApiProcess(configured(), "127.0.0.1")
    client = testing.TestClient(api.application)
    headers = {"Host": "127.0.0.1"}
    answer = client.simulate_get("/v3/types", headers=headers)
    assert [volume_type["name"] for volume_type in answer.json["volume_types"]] == ["__DEFAULT__"]
    assert client.simulate_get("/healthcheck", headers=headers).json["reasons"] == [
        "no scheduler was heard in the last 60 seconds (service_down_time)"
    ]
    assert api.further_servers(configured()) == []
    api.close()


@pytest.mark.usefixtures("with_schema")
def test_the_metrics_are_served_beside_the_api(configured: Callable[..., cfg.ConfigOpts]) -> None:
    conf = configured("enabled = true", "api_listen_port = 0")
    api = ApiProcess(conf, "127.0.0.1")
    [metrics] = api.further_servers(conf)
    metrics.start()
    assert "tonnage_metrics_pools_omitted 0" in requests.get(f"{metrics.url}/metrics/ledger", timeout=20).text
    metrics.stop()
    api.close()


@pytest.mark.usefixtures("with_schema")
def test_an_extension_has_a_listener_if_its_options_ask_for_one(
    configured: Callable[..., cfg.ConfigOpts], tmp_path: pathlib.Path
) -> None:
    """The extender for kube-scheduler does not listen by default."""
    metrics = ("enabled = true", "api_listen_port = 0")
    with kube_api.KubeApi() as kube:
        extender = ("[kubernetes]", "extender = true", f"kubeconfig = {kube.kubeconfig(tmp_path)}")
    for lines, number in ((metrics, 1), ((*metrics, *extender), 2)):
        conf = configured(*lines, extensions=("kubernetes",))
        api = ApiProcess(conf, "127.0.0.1")
        assert len(api.further_servers(conf)) == number
        api.close()


@pytest.mark.usefixtures("with_schema")
def test_an_option_of_a_further_server_is_checked(configured: Callable[..., cfg.ConfigOpts]) -> None:
    conf = configured("enabled = true", "listen = 192.0.2.1")
    api = ApiProcess(conf, "127.0.0.1")
    with pytest.raises(errors.ConfigurationError, match="may be reached from other machines"):
        api.further_servers(conf)
    api.close()
