# SPDX-License-Identifier: Apache-2.0
"""Protocols with several names."""

import pytest

from tonnage.capacity.storage_protocols import aliases


@pytest.mark.parametrize("name", ["FC", "fibre_channel", "fc"])
def test_each_name_of_a_protocol_has_the_same_aliases(name: str) -> None:
    assert aliases(name) == ("FC", "fibre_channel", "fc")


@pytest.mark.parametrize("protocol", ["NVMe-TCP", "", None, ["FC", "iSCSI"], 3])
def test_a_protocol_with_one_name_and_any_other_value_stay_as_they_are(protocol: object) -> None:
    assert aliases(protocol) is protocol
