# SPDX-License-Identifier: Apache-2.0
"""Tests of the policy file: errors in it, and a reload during requests."""

import logging
import os
import pathlib
import threading
from typing import Any

import pytest
from oslo_config import cfg
from oslo_context.context import RequestContext

from tests.unit.api.cluster import configuration
from tonnage.api.auth import policies
from tonnage.api.auth.enforcement import Policy
from tonnage.capacity import errors

PROJECT = "p"


def somebody() -> RequestContext:
    """Return the context of a user in a new request."""
    return RequestContext(user_id="u", project_id=PROJECT, roles=["member", "reader"], overwrite=False)


class Rules:
    """A policy file with its configuration."""

    def __init__(self, folder: pathlib.Path, text: str) -> None:
        self.file = folder / "policy.yaml"
        self.file.write_text(text)
        (folder / "tonnage.conf").write_text(f"[oslo_policy]\npolicy_file = {self.file}\n")
        self.conf: cfg.ConfigOpts = configuration([str(folder / "tonnage.conf")])

    def change(self, text: str) -> None:
        later = self.file.stat().st_mtime + 5
        self.file.write_text(text)
        os.utime(self.file, (later, later))


@pytest.mark.parametrize("text", ["a: [", "- a\n", "a: 5\n", "only text", "\0"])
def test_a_file_without_rules_is_rejected_with_its_name(tmp_path: pathlib.Path, text: str) -> None:
    rules = Rules(tmp_path, text)
    with pytest.raises(errors.ConfigurationError) as raised:
        Policy(rules.conf)
    assert raised.value.message.startswith(f"[oslo_policy] policy_file = {rules.file} cannot be read as rules: ")
    assert "\n" not in raised.value.message


def test_an_invalid_new_file_changes_no_rules(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    rules = Rules(tmp_path, f'"{policies.VOLUME_CREATE}": "role:member"\n"{policies.ZONES}": "!"\n')
    policy = Policy(rules.conf)
    rules.change("- a list\n")
    for _ in range(3):
        assert policy.allows(somebody(), policies.VOLUME_CREATE)
        assert not policy.allows(somebody(), policies.ZONES)
    [message] = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert message.startswith("The rules stay as they were: [oslo_policy] policy_file")
    rules.change(f'"{policies.VOLUME_CREATE}": "!"\n')
    assert not policy.allows(somebody(), policies.VOLUME_CREATE)
    assert policy.allows(somebody(), policies.ZONES)


def test_no_request_uses_incomplete_rules(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """During a reload oslo.policy has only the rules of the file for a moment, and denies calls without a rule."""
    rules = Rules(tmp_path, f'"{policies.ZONES}": "!"\n')
    policy = Policy(rules.conf)
    who, seen = somebody(), []
    assert policy.allows(who, policies.VOLUME_CREATE)
    set_rules = policy.enforcer.set_rules

    def ask() -> None:
        seen.append(policy.enforcer.authorize(policies.VOLUME_CREATE, {"project_id": PROJECT}, who.to_dict()))
        seen.append(policy.enforcer.authorize(policies.ZONES, {"project_id": PROJECT}, who.to_dict()))

    def meanwhile(*arguments: Any, **options: Any) -> None:
        set_rules(*arguments, **options)
        other = threading.Thread(target=ask)
        other.start()
        other.join()

    monkeypatch.setattr(policy.enforcer, "set_rules", meanwhile)
    rules.change(f'"{policies.ZONES}": "role:reader"\n')
    assert policy.allows(somebody(), policies.ZONES)
    assert seen == [True, False], "by the rules of before"
    ask()
    assert seen[2:] == [True, True]


@pytest.mark.parametrize(("rule", "times"), [("role:member", 1), ("http://127.0.0.1:1/x or role:member", 3)])
def test_a_verdict_is_kept_unless_another_server_gives_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, rule: str, times: int
) -> None:
    policy = Policy(Rules(tmp_path, f'"{policies.ZONES}": "{rule}"\n').conf)
    questions: list[object] = []

    def ask(*question: object) -> bool:
        questions.append(question)
        return True

    monkeypatch.setattr(policy.enforcer, "authorize", ask)
    assert all(policy.allows(somebody(), policies.ZONES) for _ in range(3))
    assert len(questions) == times
    assert policy.allows(somebody(), policies.ZONES, "other"), "another project is another question"
    assert len(questions) == times + 1
