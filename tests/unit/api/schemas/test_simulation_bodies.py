# SPDX-License-Identifier: Apache-2.0
"""Bodies with requests to explain and to simulate."""

from typing import Any

import pytest

from tonnage.api.http import body
from tonnage.api.schemas import simulation_bodies
from tonnage.api.schemas.simulation_bodies import MAX_REQUESTS, REQUEST_BODIES, WhatIf
from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation

BODIES: dict[str, Any] = {
    "volume": {"size": 1},
    "volumes": [{"size": 1}],
    "extend": {"volume_id": "v", "new_size": "2"},
    "migrate": {"volume_id": "v"},
    "retype": {"volume_id": "v", "new_type": "t"},
}


@pytest.mark.parametrize("key", BODIES)
def test_a_request_is_under_its_key_alone(key: str) -> None:
    assert REQUEST_BODIES.keys() == BODIES.keys()
    assert isinstance(body.convert({key: BODIES[key]}, REQUEST_BODIES[key]), REQUEST_BODIES[key])
    with pytest.raises(errors.InvalidInput, match=f"missing required field {key}"):
        body.convert({}, REQUEST_BODIES[key])


@pytest.mark.parametrize("key", ["extend", "migrate", "retype"])
def test_a_request_for_an_existing_volume_names_it(key: str) -> None:
    arguments = {name: value for name, value in BODIES[key].items() if name != "volume_id"}
    with pytest.raises(errors.InvalidInput, match=f"Invalid input for {key}: object missing required field volume_id"):
        body.convert({key: arguments}, REQUEST_BODIES[key])


def test_the_arguments_of_a_simulated_action_are_checked_as_those_of_the_action() -> None:
    with pytest.raises(errors.InvalidInput, match="migration_policy is 'soon'"):
        body.convert({"retype": {**BODIES["retype"], "migration_policy": "soon"}}, REQUEST_BODIES["retype"])
    with pytest.raises(errors.InvalidInput, match="cluster is set"):
        body.convert({"migrate": {"volume_id": "v", "cluster": "c"}}, REQUEST_BODIES["migrate"])


def test_a_simulation_without_changes_is_one_of_the_pools_as_they_are() -> None:
    simulation = body.convert({"requests": [{"volume": {"size": 1}}]}, WhatIf)
    assert (simulation.detail, simulation.independent) == (False, False)
    assert simulation.changes == simulation_bodies.Changes()
    assert (simulation.changes.ratios, simulation.changes.lost, simulation.changes.added) == ({}, [], [])


def test_changes_have_numbers_and_words_for_ratios() -> None:
    changes = {"default_ratio": "auto", "ratios": {"h@b#p": 2.5}, "calculation": "standard", "lost": ["h@b"]}
    sent = body.convert({"requests": [{}], "changes": changes, "apart": True}, WhatIf)
    assert sent.independent
    assert (sent.changes.default_ratio, sent.changes.ratios) == ("auto", {"h@b#p": 2.5})
    assert sent.changes.calculation is Calculation.STANDARD


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({"requests": []}, "expected array of length >= 1"),
        ({"requests": [{}] * (MAX_REQUESTS + 1)}, f"expected array of length <= {MAX_REQUESTS}"),
        ({"requests": [{}], "independent": True}, "unknown field independent"),
        ({"requests": [{}], "changes": {"calculation": "loose"}}, "changes.calculation"),
        ({"requests": [{}], "changes": {"lost": [""]}}, r"changes.lost\[0\]"),
        ({"requests": [7]}, r"requests\[0\]: 7: expected object"),
    ],
)
def test_other_simulations_are_refused(sent: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InvalidInput, match=message):
        body.convert(sent, WhatIf)
