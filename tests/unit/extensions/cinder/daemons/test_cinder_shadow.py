# SPDX-License-Identifier: Apache-2.0
"""``tonnage-cinder-shadow`` as a process: what keeps it from starting."""

import pathlib

import pytest

from tests.functional.deployment import run_program
from tests.servers import ledger_schema
from tonnage.ledger.db import database

BUS = "transport_url = rabbit://u:secret@127.0.0.1:1/"
ROWS = "cinder_connection = mysql+pymysql://u:secret@127.0.0.1:1/cinder"


def start(folder: pathlib.Path, *lines: str, with_ledger: bool = True) -> str:
    """Start the shadow with these lines of its section, and return its only line when it has ended."""
    url = f"sqlite:///{folder}/ledger.sqlite"
    if with_ledger:
        engine = database.create_engine(url)
        ledger_schema.create(engine)
        engine.dispose()
    conf = folder / "tonnage.conf"
    conf.write_text("\n".join(["[database]", f"connection = {url}", "[cinder_shadow]", *lines]))
    ended = run_program("tonnage-cinder-shadow", "--config-file", conf)
    assert ended.code == 1
    [line] = ended.error.splitlines()
    assert line.startswith("tonnage-cinder-shadow: ")
    assert "secret" not in line
    return line


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((ROWS,), "option [cinder_shadow] transport_url is not set"),
        ((BUS,), "option [cinder_shadow] cinder_connection is not set"),
        ((BUS, "cinder_connection = paper://drawer"), "[cinder_shadow] cinder_connection"),
        ((BUS, ROWS, "queue_messages = 5"), "[cinder_shadow] queue_messages = 5"),
    ],
)
def test_an_unusable_option_is_named_before_a_worker_starts(
    tmp_path: pathlib.Path, lines: tuple[str, ...], message: str
) -> None:
    assert message in start(tmp_path, *lines)


def test_without_a_ledger_it_names_the_command_that_makes_one(tmp_path: pathlib.Path) -> None:
    assert "tonnage-manage db sync" in start(tmp_path, BUS, ROWS, with_ledger=False)
