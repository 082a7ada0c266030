# SPDX-License-Identifier: Apache-2.0
"""The arguments of ``tonnage explain`` and ``tonnage what-if``."""

from types import SimpleNamespace

import pytest

from tests.unit.cli import command_runs
from tonnage.api.schemas import volume_bodies
from tonnage.capacity.arithmetic import Calculation
from tonnage.cli import tonnage
from tonnage.cli.simulation import simulation_commands
from tonnage.rpc.messages import MigrationPolicy


def run(*arguments: str) -> int:
    return command_runs.run(tonnage.program(), arguments, SimpleNamespace(default_volume_type=None))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain", "0"], "argument SIZE: '0': expected a whole number of GiB from 1 to"),
        (["explain", "1.5"], "argument SIZE: '1.5': expected a whole number of GiB"),
        (["explain", "1", "--hint", "x"], "argument --hint: 'x': expected KEY=VALUE"),
        (["explain", "1", "--node", "n1:zone"], "argument --node: 'n1:zone': expected NAME or NAME:KEY=VALUE,..."),
        (["explain", "1", "--count", "0"], "argument --count: '0': expected a whole number from 1 to 128"),
        (["explain", "1", "--url", "ftp://x"], "argument --url: 'ftp://x': expected http://HOST:PORT"),
        (["what-if", "1", "--ratio", "h@b=0.5"], "argument --ratio: '0.5' is neither a number of at least 1"),
        (["what-if", "1", "--ratio", "moon=2"], "argument --ratio: 'moon': expected host@backend#pool or host@backend"),
        (["what-if", "1", "--reserved", "101"], "argument --reserved: '101': expected a percentage from 0 to 100"),
        (["what-if", "1", "--reserved", "=nan"], "argument --reserved: '=nan': expected POOL=PERCENT"),
        (["what-if", "1", "--lose", "h@b#"], "argument --lose: 'h@b#': expected host@backend#pool or host@backend"),
        (["what-if", "1", "--add", "{"], "argument --add: { is no JSON: "),
        (["what-if", "1", "--add", "{}"], "argument --add: pool_name is None; a new pool has a full name"),
        (["what-if", "1", "--add", '{"pool_name": "h@b#p"}'], "argument --add: pool 'p': total_capacity_gb is missing"),
        (["what-if", "--file", "/nowhere"], "argument --file: /nowhere: No such file or directory"),
    ],
)
def test_an_invalid_value_is_reported_with_its_option(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(*arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_the_choices_of_options_are_those_of_the_code() -> None:
    assert simulation_commands.MAX_AT_ONCE == volume_bodies.MAX_AT_ONCE
    assert list(simulation_commands.MIGRATION_POLICIES) == [each.value for each in MigrationPolicy]
    assert list(simulation_commands.CALCULATIONS) == [each.value for each in Calculation]
