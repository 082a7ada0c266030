# SPDX-License-Identifier: Apache-2.0
"""Tests of the address of the REST API: command line, configuration, environment, default."""

import argparse
import pathlib
from collections.abc import Iterator

import pytest
from oslo_config import cfg
from oslo_log import log as logging

from tonnage.api import options as api_options
from tonnage.capacity import errors
from tonnage.cli.rest import connection_arguments
from tonnage.ledger.db import options as database_options
from tonnage.rpc import options as rpc_options

ARGUMENT, VARIABLE, CONFIGURED = "http://argument:1", "http://variable:2", "http://192.0.2.3:3"


@pytest.fixture(autouse=True)
def _nothing_is_said_yet() -> Iterator[None]:
    connection_arguments.default_url.cache_clear()
    yield
    connection_arguments.default_url.cache_clear()


def configuration(*arguments: str, usual: tuple[str, ...] = ()) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    for options in (logging.register_options, rpc_options.register, api_options.register, database_options.register):
        options(conf)
    conf(list(arguments), project="tonnage", default_config_files=list(usual), default_config_dirs=[])
    return conf


@pytest.fixture
def file(tmp_path: pathlib.Path) -> str:
    file = tmp_path / "tonnage.conf"
    file.write_text(
        "[DEFAULT]\nosapi_volume_listen = 192.0.2.3\nosapi_volume_listen_port = 3\n[database]\nconnection = sqlite://\n"
    )
    return str(file)


def test_the_command_line_comes_first_then_the_environment_then_a_usual_file(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    named, usual = configuration("--config-file", file), configuration(usual=(file,))
    monkeypatch.setenv("TONNAGE_URL", VARIABLE)
    assert {connection_arguments.api_url(conf, ARGUMENT) for conf in (named, usual)} == {ARGUMENT}
    assert {connection_arguments.ledger_url(conf, ARGUMENT) for conf in (named, usual)} == {ARGUMENT}
    assert (connection_arguments.api_url(named, None), connection_arguments.ledger_url(named, None)) == (
        CONFIGURED,
        None,
    )
    assert connection_arguments.api_url(usual, None) == connection_arguments.ledger_url(usual, None) == VARIABLE
    monkeypatch.delenv("TONNAGE_URL")
    assert (connection_arguments.api_url(usual, None), connection_arguments.ledger_url(usual, None)) == (
        CONFIGURED,
        None,
    )
    assert capsys.readouterr().err == ""


def test_without_any_of_them_the_address_of_the_standalone_is_used_and_said_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TONNAGE_URL", raising=False)
    conf = configuration()
    assert connection_arguments.api_url(conf, None) == connection_arguments.ledger_url(conf, None)
    assert connection_arguments.api_url(conf, None) == "http://127.0.0.1:8776"
    said = "no configuration is named: asking http://127.0.0.1:8776, where tonnage-standalone listens by default"
    assert capsys.readouterr().err == f"tonnage: {said}\n"


@pytest.mark.parametrize("value", ["tonnage:8776", "http://", "ftp://tonnage"])
def test_a_value_that_is_no_url_is_rejected(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected http://HOST:PORT"):
        connection_arguments.url(value)
    monkeypatch.setenv("TONNAGE_URL", value)
    with pytest.raises(errors.ConfigurationError, match=f"TONNAGE_URL: '{value}': expected http://HOST:PORT"):
        connection_arguments.api_url(configuration(), None)
