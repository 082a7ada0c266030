# SPDX-License-Identifier: Apache-2.0
"""The specs of a volume type as mappings."""

from tonnage.ledger.models import ExtraSpec, QosSpecs, VolumeType


def test_extra_specs_are_a_mapping_of_their_rows() -> None:
    specs = [ExtraSpec(key="tier", value="1"), ExtraSpec(key="use", value="db")]
    assert VolumeType(name="gold", specs=specs).extra_specs == {"tier": "1", "use": "db"}
    assert VolumeType(name="plain").extra_specs == {}


def test_a_type_without_qos_specs_has_none() -> None:
    volume_type = VolumeType(name="gold")
    assert volume_type.qos_specs == {}
    volume_type.qos = QosSpecs(name="fast", consumer="both", specs={"iops": "5"})
    assert volume_type.qos_specs == {"iops": "5"}
