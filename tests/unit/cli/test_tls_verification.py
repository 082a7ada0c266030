# SPDX-License-Identifier: Apache-2.0
"""Warnings of servers whose certificate is not verified."""

import logging
from typing import Any

import pytest
from oslo_config import cfg

from tonnage.cli import tls_verification
from tonnage.ledger.db import options as database_options
from tonnage.rpc import options, transport

LOCAL = ("sqlite:////var/lib/tonnage/tonnage.sqlite", "kombu+memory://")


def configuration(connection: str, bus: str, **rabbit: Any) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    options.register(conf)
    database_options.register(conf)
    conf([], project="tonnage", default_config_files=[])
    conf.set_override("connection", connection, "database")
    conf.set_override("transport_url", bus)
    transport.create(conf).cleanup()
    for name, value in rabbit.items():
        conf.set_override(name, value, "oslo_messaging_rabbit")
    return conf


@pytest.mark.parametrize(
    "connection",
    [
        LOCAL[0],
        "postgresql+psycopg://u:secret@/tonnage?host=/run/postgresql",
        "postgresql+psycopg://u:secret@localhost/tonnage",
        "postgresql+psycopg://u:secret@[::1]:5432/tonnage",
        "postgresql+psycopg://u:secret@db.example.org/tonnage?sslmode=verify-full&sslrootcert=/etc/ca.pem",
        "mysql+pymysql://u:secret@localhost/tonnage?unix_socket=/run/mysqld/mysqld.sock",
        "mysql+pymysql://u:secret@db.example.org/tonnage?ssl_ca=/etc/ca.pem",
    ],
)
def test_local_and_verified_databases_are_not_warned_of(connection: str) -> None:
    assert tls_verification.find(configuration(connection, LOCAL[1])) == []


@pytest.mark.parametrize(
    ("connection", "host", "remedy"),
    [
        ("postgresql+psycopg://u:secret@db.example.org/tonnage", "db.example.org", "sslmode=verify-full"),
        ("postgresql+psycopg://u:secret@10.0.0.1/tonnage?sslmode=require", "10.0.0.1", "sslmode=verify-full"),
        ("postgresql+psycopg://u:secret@/tonnage?host=127.0.0.1:1&host=db2:5432", "db2", "sslmode=verify-full"),
        ("mysql+pymysql://u:secret@db.example.org/tonnage", "db.example.org", "ssl_ca=FILE"),
    ],
)
def test_a_database_that_is_not_verified_is_named(
    connection: str, host: str, remedy: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        tls_verification.warn(configuration(connection, LOCAL[1]))
    [line] = caplog.messages
    assert line.startswith(f"[database] connection: the certificate of {host} is not verified")
    assert remedy in line
    assert "secret" not in line


def test_a_bus_is_verified_with_a_certificate_of_its_authority() -> None:
    bus = "rabbit://u:secret@one:5672/tonnage"
    for rabbit in ({}, {"ssl": True}, {"ssl_ca_file": "/etc/ca.pem"}):
        [line] = tls_verification.find(configuration(LOCAL[0], bus, **rabbit))
        assert line.startswith("[DEFAULT] transport_url: the certificate of one is not verified")
    assert tls_verification.find(configuration(LOCAL[0], bus, ssl=True, ssl_ca_file="/etc/ca.pem")) == []
    assert tls_verification.find(configuration(LOCAL[0], "rabbit://u:secret@127.0.0.1/")) == []


def test_the_name_of_one_of_several_hosts_of_the_bus_is_not_checked() -> None:
    bus = "rabbit://u:secret@mq1.example.org,u:secret@mq2.example.org/"
    [line] = tls_verification.find(configuration(LOCAL[0], bus, ssl=True, ssl_ca_file="/etc/ca.pem"))
    assert "several hosts" in line


def test_the_bus_of_a_process_without_a_connection_to_it_is_left_out() -> None:
    """The publisher takes the same configuration file as the others."""
    conf = cfg.ConfigOpts()
    options.register(conf)
    conf([], project="tonnage", default_config_files=[])
    conf.set_override("transport_url", "rabbit://u:secret@mq.example.org/")
    assert tls_verification.find(conf) == []
