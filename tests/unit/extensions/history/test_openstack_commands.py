# SPDX-License-Identifier: Apache-2.0
"""``openstack volume forecast list``: the bodies of the REST API as rows with the keys of ``tonnage forecast``."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tonnage.extensions.history import forecast_commands as forecasts
from tonnage.extensions.history import openstack_commands
from tonnage.extensions.history.api import history_bodies as bodies

FORECAST = bodies.PoolForecast(
    pool="h@b#p",
    bound="physical",
    made_on="2030-01-02",
    text="full in 9 to 21 days (80 %)",
    p10_days=9.0,
    p50_days=14.5,
    p90_days=None,
    low_gb=1.0,
    high_gb=2.0,
    growth_days=14,
    hit_rate=0.8,
    checked=5,
)
TYPE = bodies.TypeRefusals(
    volume_type="gold",
    text="refused in 12 of 20 runs",
    known_days=30,
    runs=20,
    refused_runs=12,
    filter="CapacityFilter",
    message="No pool for 5 GiB",
    requests=[bodies.WantedVolumes(volume_type="gold", size_gb=5, number=3)],
    made_at="2030-01-02T03:04:05Z",
)


def listed(answer: object, *arguments: str) -> list[dict[str, Any]]:
    """Return the rows that the command lists if the REST API answers with that body."""

    def get(path: str, params: dict[str, str]) -> Any:
        return SimpleNamespace(status_code=200, headers={}, json=lambda: msgspec.to_builtins(answer))

    connection = SimpleNamespace(volume=SimpleNamespace(get=get))
    app: Any = SimpleNamespace(client_manager=SimpleNamespace(sdk_connection=connection))
    command = openstack_commands.ListForecasts(app, None)
    columns, rows = command.take_action(command.get_parser("openstack").parse_args(arguments))
    return [dict(zip(columns, row, strict=True)) for row in rows]


def test_forecasts_have_the_keys_of_the_command_of_tonnage(capsys: pytest.CaptureFixture[str]) -> None:
    [row] = listed(bodies.ForecastOverview(count=3, forecasts=[FORECAST]))
    assert (row["pool"], row["forecast"], row["p50_days"], row["p90_days"]) == (
        *("h@b#p", "full in 9 to 21 days (80 %)", 14.5),
        None,
    )
    assert set(row) <= {column.key for column in forecasts._COLUMNS}
    assert capsys.readouterr().err == "The soonest 1 of 3 forecasts\n"


def test_the_refusals_to_come_have_the_keys_of_the_command_of_tonnage() -> None:
    [row] = listed(bodies.ComingRefusals([TYPE]), "--refusals")
    assert (row["volume_type"], row["refused_runs"], row["filter"]) == ("gold", 12, "CapacityFilter")
    # The requests that lead to a refusal are for tonnage what-if, on a machine of Tonnage.
    assert {*row, "requests"} == {column.key for column in forecasts._REFUSALS}
