# SPDX-License-Identifier: Apache-2.0
"""Each command of the driver is one that the shipped sudoers file permits, for volumes with ids alone."""

import pathlib
import re
import shlex

import pytest

from tonnage.drivers.lvm import lvm_commands as commands

GROUP, POOL = "tonnage-volumes", "tonnage-volumes-pool"
VOLUME = "8cd69f4e-6f3f-4d33-a2a1-000000000001"
COPY = "8cd69f4e-6f3f-4d33-a2a1-000000000002"
SUDOERS = pathlib.Path(__file__).parents[4] / "etc/sudoers.d/tonnage-lvm"
RULES = re.findall(r"^ +/usr/s?bin/(\w+) (\^.*\$)(?:, \\)?$", SUDOERS.read_text(encoding="utf-8"), re.MULTILINE)


def permitted(command: list[str]) -> bool:
    program, *arguments = command
    text = " ".join(arguments)
    return any(rule_program == program and re.search(pattern, text) for rule_program, pattern in RULES)


@pytest.mark.parametrize(
    "command",
    [
        commands.list_volumes(GROUP),
        commands.show_group(GROUP),
        commands.create_thick(GROUP, VOLUME, 3),
        commands.create_thin(GROUP, POOL, VOLUME, 3),
        commands.create_unfinished(GROUP, COPY, 3),
        commands.snapshot(GROUP, VOLUME, COPY),
        commands.copy(GROUP, VOLUME, COPY, 1 << 30, 4096),
        commands.finish(GROUP, COPY),
        commands.create_pool(GROUP, POOL),
        commands.extend(GROUP, VOLUME, 4),
        commands.extend(GROUP, "managed.volume", 4),
        commands.rename(GROUP, "managed.volume", VOLUME),
        commands.zero(GROUP, VOLUME, 0, 1 << 30),
        commands.remove(GROUP, VOLUME),
        commands.activate(GROUP, VOLUME),
        commands.activate(GROUP, POOL),
        commands.refresh(GROUP, VOLUME),
        commands.tag_group(GROUP, "tonnage.pool=host:lvm"),
        commands.tag_pool(GROUP, POOL, "tonnage.ledger=8cd69f4e"),
    ],
    ids=shlex.join,
)
def test_a_command_is_permitted_in_its_exact_words(command: list[str]) -> None:
    assert permitted(command)
    assert not permitted([*command, "--force"])


@pytest.mark.parametrize(
    "command",
    [
        commands.remove(GROUP, "root"),
        commands.remove(GROUP, POOL),
        commands.remove("system", VOLUME),
        commands.zero(GROUP, "swap", 0, 4096),
        commands.copy(GROUP, "root", COPY, 0, 4096),
        commands.snapshot(GROUP, "root", COPY),
        commands.create_thick(GROUP, "root", 3),
        commands.rename(GROUP, VOLUME, "root"),
        commands.tag_group(GROUP, "tonnage.pool=a b"),
    ],
    ids=shlex.join,
)
def test_logical_volumes_with_other_names_are_protected(command: list[str]) -> None:
    assert not permitted(command)


def test_a_copy_addresses_bytes_of_both_volumes() -> None:
    command = commands.copy(GROUP, VOLUME, COPY, offset=8192, length=4096)
    assert {"skip=8192", "seek=8192", "count=4096"} <= set(command)
    assert {f"if=/dev/{GROUP}/{VOLUME}", f"of=/dev/{GROUP}/{COPY}"} <= set(command)
