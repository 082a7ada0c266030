# SPDX-License-Identifier: Apache-2.0
"""A group or a thin pool belongs to one backend by its tag."""

import pytest

from tests.unit.drivers.lvm.logical_volumes import FakeGroup
from tonnage.drivers.command_runner import CommandFailed
from tonnage.drivers.lvm import volume_location
from tonnage.drivers.lvm.volume_location import VALID_NAME, VolumeLocation


@pytest.fixture
def fake() -> FakeGroup:
    return FakeGroup()


@pytest.fixture(params=["", "pool"])
def location(fake: FakeGroup, request: pytest.FixtureRequest) -> VolumeLocation:
    """The group, then a thin pool in it."""
    if request.param:
        fake.add(request.param, "thin,pool")
    return VolumeLocation(fake, "vg", request.param)


def tags(fake: FakeGroup) -> list[str]:
    return fake.tags or [row["lv_tags"] for row in fake.volumes.values() if row["lv_tags"]]


def test_the_first_backend_owns_a_location(fake: FakeGroup, location: VolumeLocation) -> None:
    for _ in range(2):
        assert location.claim("host@lvm", location.read()) is None
    assert tags(fake) == ["tonnage.pool=host:lvm"]


def test_another_backend_is_told_how_the_tag_is_removed(fake: FakeGroup, location: VolumeLocation) -> None:
    location.claim("host@lvm", location.read())
    remedy = location.claim("other@lvm", location.read())
    program, target = ("lvchange", "vg/pool") if location.pool else ("vgchange", "vg")
    assert remedy == f"{program} --deltag 'tonnage.pool=host:lvm' {target}"
    assert tags(fake) == ["tonnage.pool=host:lvm"]


def test_of_two_backends_that_start_together_none_uses_the_location(fake: FakeGroup, location: VolumeLocation) -> None:
    fake.on_tag = ["tonnage.pool=other:lvm"]
    assert "tonnage.pool=other:lvm" in (location.claim("host@lvm", location.read()) or "")


def test_a_location_keeps_the_mark_of_its_first_ledger(location: VolumeLocation) -> None:
    assert location.ledger_mark(location.read()) is None
    assert location.mark_ledger("one") == "one"
    assert location.mark_ledger("two") == "one"
    assert location.ledger_mark(location.read()) == "one"


def test_the_name_of_a_backend_becomes_a_tag_of_permitted_characters(fake: FakeGroup) -> None:
    VolumeLocation(fake, "vg", "").claim("hö st@b/1", VolumeLocation(fake, "vg", "").read())
    assert fake.tags == ["tonnage.pool=h+C3+B6+20st:b+2F1"]


def test_volumes_of_a_location_are_thick_in_a_group_and_thin_in_its_pool(fake: FakeGroup) -> None:
    fake.add("pool", "thin,pool")
    fake.add("other", "thin,pool")
    fake.add("thick")
    fake.add("thin", "thin,sparse", pool="pool")
    fake.add("elsewhere", "thin,sparse", pool="other")
    for pool, names in (("", ["thick"]), ("pool", ["thin"])):
        location = VolumeLocation(fake, "vg", pool)
        group = location.read()
        assert [name for name, volume in group.volumes.items() if location.contains(volume)] == names
        assert location.exists_in(group)
    assert not VolumeLocation(fake, "vg", "thick").exists_in(group)
    assert not VolumeLocation(fake, "vg", "absent").exists_in(group)


def test_an_answer_that_is_no_report_is_a_failed_command(fake: FakeGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake, "run", lambda command: "{}")
    with pytest.raises(CommandFailed, match=r"^lvs: "):
        VolumeLocation(fake, "vg", "").read()


def test_a_location_names_itself() -> None:
    assert str(VolumeLocation(FakeGroup(), "vg", "")) == "group vg"
    assert str(VolumeLocation(FakeGroup(), "vg", "pool")) == "thin pool vg/pool"


def test_a_command_that_sudo_refuses_has_a_remedy() -> None:
    refused = CommandFailed("sudo: a password is required")
    assert volume_location.message_with_remedy(refused).endswith("(see etc/sudoers.d/tonnage-lvm)")
    assert volume_location.message_with_remedy(CommandFailed("lvs: no group")) == "lvs: no group"


@pytest.mark.parametrize("name", ["vg", "_vg", "a+b.c-d", "x" * 127, "...", ".a"])
def test_names_that_lvm_takes(name: str) -> None:
    assert VALID_NAME.fullmatch(name)


@pytest.mark.parametrize("name", ["", ".", "..", "-vg", "a/b", "a b", "x" * 128])
def test_names_that_lvm_refuses(name: str) -> None:
    assert not VALID_NAME.fullmatch(name)
