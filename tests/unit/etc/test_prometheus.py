# SPDX-License-Identifier: Apache-2.0
"""The rules for Prometheus, on the alerts and ratios that they are to give."""

import pathlib
import re

import pytest
import yaml

from tests import suites
from tests.servers.prometheus import Prometheus, promtool

RULES = pathlib.Path(__file__).parents[3] / "etc" / "prometheus" / "tonnage.rules.yml"
ALERTS = [
    rule
    for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
    if "alert" in rule
]
PREDICTIONS = r"predict_linear|deriv|double_exponential_smoothing|holt_winters|time_to_full|coming_refusals"


def test_the_rules_give_their_alerts_and_ratios() -> None:
    if not Prometheus.installed():
        suites.cannot_run(Prometheus.name, f"no {Prometheus.name} on this machine; install {Prometheus.packages}")
    for command in (
        ("check", "rules", RULES),
        ("test", "rules", pathlib.Path(__file__).with_name("tonnage.rules.test.yml")),
    ):
        done = promtool(*command)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: str(rule["alert"]))
def test_an_alert_has_a_severity_and_texts_and_pages_on_facts_alone(rule: dict[str, dict[str, str]]) -> None:
    assert set(rule["annotations"]) == {"summary", "description"}
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert rule["labels"]["severity"] == "warning" or not re.search(PREDICTIONS, str(rule["expr"]))


def test_every_alert_has_a_case() -> None:
    cases = yaml.safe_load(pathlib.Path(__file__).with_name("tonnage.rules.test.yml").read_text(encoding="utf-8"))
    expected = {
        case["alertname"] for test in cases["tests"] for case in test.get("alert_rule_test", ()) if case["exp_alerts"]
    }
    assert expected == {rule["alert"] for rule in ALERTS}
