# SPDX-License-Identifier: Apache-2.0
"""The construction of the shadow from its options."""

import contextlib
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.extensions.cinder.watch import shadow_composition, shadow_options
from tonnage.extensions.cinder.watch.shadow import Shadow
from tonnage.ledger.db import database
from tonnage.ledger.db import options as database_options
from tonnage.rpc import options as rpc_options
from tonnage.scheduler.configuration import settings


@pytest.fixture
def conf() -> cfg.ConfigOpts:
    found = cfg.ConfigOpts()
    for register in (rpc_options.register, settings.register, database_options.register, shadow_options.register):
        register(found)
    found([])
    found.set_override("transport_url", "rabbit://u:p@bus:5673/", "cinder_shadow")
    found.set_override("cinder_connection", "mysql+pymysql://u:p@db/cinder", "cinder_shadow")
    return found


@pytest.fixture
def own() -> Iterator[database.Database]:
    found = database.Database(database.create_engine("sqlite://"), 2)
    yield found
    found.close()


def build(conf: cfg.ConfigOpts, own: Any) -> Shadow:
    with contextlib.ExitStack() as cleanup:
        return shadow_composition.build(conf, own, cleanup)


def test_a_shadow_is_built_without_a_connection(conf: cfg.ConfigOpts, own: database.Database) -> None:
    """Cinder may be away: the shadow starts, and waits."""
    assert isinstance(build(conf, own), Shadow)


@pytest.mark.parametrize("name", ["transport_url", "cinder_connection"])
def test_the_two_addresses_are_required(conf: cfg.ConfigOpts, own: database.Database, name: str) -> None:
    conf.clear_override(name, "cinder_shadow")
    with pytest.raises(errors.ConfigurationError, match=rf"option \[cinder_shadow\] {name} is not set"):
        build(conf, own)


def test_a_wrong_database_address_is_named(conf: cfg.ConfigOpts, own: database.Database) -> None:
    conf.set_override("cinder_connection", "paper://drawer", "cinder_shadow")
    with pytest.raises(errors.ConfigurationError, match=r"\[cinder_shadow\] cinder_connection"):
        build(conf, own)


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("rabbit://u:p@bus:5673/", ["amqp://u:p@bus:5673/%2F"]),
        ("rabbit://bus/", ["amqp://guest:guest@bus:5672/%2F"]),
        ("rabbit://u:a%2Fb@one,u:p@two:5673/cloud", ["amqp://u:a%2Fb@one:5672/cloud", "amqp://u:p@two:5673/cloud"]),
    ],
)
def test_addresses_of_the_bus(conf: cfg.ConfigOpts, url: str, wanted: list[str]) -> None:
    assert shadow_composition.addresses(conf, url) == wanted


@pytest.mark.parametrize("url", ["kafka://u:p@bus:9092/", "fake://", "rabbit://u:p@bus:many/", "nonsense"])
def test_other_buses_are_refused(conf: cfg.ConfigOpts, url: str) -> None:
    expected = r"option \[cinder_shadow\] transport_url.*expected rabbit://user:password@host:5672/"
    with pytest.raises(errors.ConfigurationError, match=expected):
        shadow_composition.addresses(conf, url)


def test_tls_takes_the_certificate_of_an_authority(
    conf: cfg.ConfigOpts, own: database.Database, tmp_path: pathlib.Path
) -> None:
    conf.set_override("transport_url", "rabbit://u:p@bus:5671/?ssl=1", "cinder_shadow")
    with pytest.raises(errors.ConfigurationError, match="has the parameter ssl, which has no effect here: set tls_ca_"):
        build(conf, own)
    conf.set_override("transport_url", "rabbit://u:p@bus:5671/?ssl=0", "cinder_shadow")
    assert isinstance(build(conf, own), Shadow)
    authority = tmp_path / "ca.pem"
    conf.set_override("tls_ca_file", str(authority), "cinder_shadow")
    with pytest.raises(errors.ConfigurationError, match=f"tls_ca_file: {authority} cannot be read"):
        build(conf, own)
    authority.write_text("")
    assert isinstance(build(conf, own), Shadow)
