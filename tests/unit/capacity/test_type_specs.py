# SPDX-License-Identifier: Apache-2.0
"""Extra specs that limit requests."""

import pytest

from tonnage.capacity import errors, type_specs

MIN, MAX, ZONES = "provisioning:min_vol_size", "provisioning:max_vol_size", "RESKEY:availability_zones"
BY_MIGRATION = "provisioning:extend_by_migration"


@pytest.mark.parametrize(
    "specs",
    [
        {},
        {MIN: "2", MAX: "2"},
        {MIN: "0"},
        {MAX: " 7 "},
        {ZONES: "nova"},
        {ZONES: " a,, b "},
        {"provisioning:type": "thick"},
        {"provisioned": "x", "RESKEYS:a": "b", "other:min_vol_size": "x"},
    ],
)
def test_valid_specs(specs: dict[str, str]) -> None:
    type_specs.check(specs)


@pytest.mark.parametrize(
    ("specs", "text"),
    [
        ({MAX: "five"}, f"extra spec {MAX} is 'five'; it takes a whole number of GiB"),
        ({MIN: ""}, f"extra spec {MIN} is ''; it takes a whole number of GiB"),
        ({MIN: "-1"}, f"extra spec {MIN} is '-1'; it takes a whole number of GiB"),
        ({MIN: "1.5"}, f"extra spec {MIN} is '1.5'; it takes a whole number of GiB"),
        ({MIN: "<= 5"}, f"extra spec {MIN} is '<= 5'; it takes a whole number of GiB"),
        ({MIN: "3", MAX: "2"}, f"extra spec {MIN} is 3 and {MAX} is 2: no volume has such a size"),
        ({ZONES: " , "}, f"extra spec {ZONES} is ' , '; it takes names of zones, as in 'north, south'"),
        (
            {"provisioning:max_volume_size": "5"},
            "there is no extra spec provisioning:max_volume_size: the scope provisioning has provisioning:type, "
            f"{MIN}, {MAX}, {BY_MIGRATION}",
        ),
        ({"RESKEY:zones": "a"}, f"there is no extra spec RESKEY:zones: the scope RESKEY has {ZONES}"),
        ({BY_MIGRATION: "yes"}, f"extra spec {BY_MIGRATION} is 'yes'; it takes '<is> True' or '<is> False'"),
        ({"provisioning:type": "fat"}, "extra spec provisioning:type is 'fat'; it takes 'thin' or 'thick'"),
    ],
)
def test_wrong_specs_are_named(specs: dict[str, str], text: str) -> None:
    with pytest.raises(errors.InvalidInput) as refused:
        type_specs.check(specs)
    assert refused.value.message == text


@pytest.mark.parametrize(
    ("specs", "is_allowed"),
    [({}, False), *(({BY_MIGRATION: value}, value.endswith("rue")) for value in ("<is> True", "true", "<is> False"))],
)
def test_a_type_says_whether_its_volumes_move_to_grow(specs: dict[str, str], is_allowed: bool) -> None:
    assert type_specs.extends_by_migration(specs) is is_allowed


def test_zones_are_a_list_without_blanks() -> None:
    assert type_specs.zones({}) is None
    assert type_specs.zones({ZONES: " north , far east,"}) == ("north", "far east")
