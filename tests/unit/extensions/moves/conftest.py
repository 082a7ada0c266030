# SPDX-License-Identifier: Apache-2.0
"""Fixtures of this folder: those of the API, with the extension enabled."""

import functools
from collections.abc import Iterator

import pytest
from oslo_config import cfg

from tests.unit.api.cluster import Cluster, configuration
from tests.unit.api.conftest import client, member, project, running_cluster  # noqa: F401
from tests.unit.cli.conftest import RestApi
from tonnage.api import app
from tonnage.api.auth import authentication
from tonnage.api.http.server import ApiServer
from tonnage.extensions.moves import options, scheduler_parts


@pytest.fixture(scope="package")
def enabled_extensions() -> list[str]:
    """The names of the extensions of the API."""
    return ["moves"]


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The services behind the API, with a scheduler that plans moves."""
    conf = cfg.ConfigOpts()
    for group, section_options in options.list_opts():
        conf.register_opts(section_options, group)
    conf([])
    builders = {"moves": functools.partial(scheduler_parts.build, conf)}
    with running_cluster(tmp_path_factory.mktemp("cluster"), builders) as running:
        yield running


@pytest.fixture(scope="package")
def rest_api(cluster: Cluster, enabled_extensions: list[str]) -> Iterator[RestApi]:
    """The API at an address, with a volume of 2 GiB in the thick pool, which the thin pool does not take."""
    conf = configuration(osapi_volume_listen_port=0, enabled_extensions=enabled_extensions)
    authenticator = authentication.select(conf, "127.0.0.1")
    server = ApiServer(conf, app.build(conf, cluster.database, cluster.scheduler, authenticator))
    server.start()
    administrator = cluster.client()
    volume_type = {"name": "b", "extra_specs": {"storage_protocol": "block"}}
    administrator.simulate_post("/v3/types", json={"volume_type": volume_type})
    volume = administrator.create(2, name="first", volume_type="b")
    administrator.wait_until_settled(volume["id"])
    yield RestApi(cluster, administrator, server.url, volume["id"])
    server.stop()
