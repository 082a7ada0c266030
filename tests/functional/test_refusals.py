# SPDX-License-Identifier: Apache-2.0
"""The documented refusals equal the answers of Tonnage, and every filter has one."""

import json
import pathlib
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import pytest

from tests.functional.deployment import Addresses, Deployment, read_configuration
from tests.servers.base import wait_for

DOCS = pathlib.Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "refusals.rst").read_text(encoding="utf-8")
CONF = DOCS / "examples" / "refusals" / "tonnage.conf"

TITLE = re.compile(r"^(.+)\n=+\n", re.MULTILINE)
BLOCK = re.compile(r"\.\. code-block:: console\n\n((?:   .*\n|\n)+)")
COMMAND = re.compile(
    r"(?:(?P<name>\w+)=\$\()?curl -s (?:-X (?P<method>\w+) )?\$api/(?P<path>\S+) -H \"\$json\" -d '(?P<body>.*)'"
    r" \| jq -r (?P<wanted>\S+?)\)?"
)


NOT_REPORTED = "SELECT COUNT(*) FROM claims WHERE NOT contained"


@dataclass(frozen=True, slots=True)
class Call:
    """One command of the page: a request, the path of a value in its answer, and the value that the page shows."""

    method: str
    path: str
    body: str
    wanted: list[str]
    shown: str
    variable: str | None


def calls() -> Iterator[Call]:
    """Yield the calls of the page in order."""
    for block in BLOCK.findall(PAGE):
        for entry in re.split(r"^\$ ", textwrap.dedent(block), flags=re.MULTILINE)[1:]:
            command, *lines = entry.strip().split("\n")
            while lines and lines[0].startswith("> "):
                command = f"{command.removesuffix(chr(92)).rstrip()} {lines.pop(0)[2:].strip()}"
            if command.startswith(("api=", "json=")):
                continue
            found = COMMAND.fullmatch(command)
            assert found is not None, f"the test cannot parse this command: {command}"
            yield Call(
                method=found["method"] or "POST",
                path=found["path"],
                body=found["body"],
                wanted=found["wanted"].strip(".").split("."),
                shown=" ".join(" ".join(lines).split()),
                variable=found["name"],
            )


CALLS = list(calls())


@pytest.fixture(scope="module")
def tonnage() -> Iterator[Deployment]:
    """Tonnage with the configuration of the page."""
    sections = read_configuration(CONF)
    defaults = sections.pop("DEFAULT")
    with Deployment(Addresses(), sections, **defaults) as deployment:
        yield deployment.start()


def test_the_documented_refusals_equal_the_answers(tonnage: Deployment) -> None:
    variables: dict[str, str] = {}
    answered: list[tuple[str, str]] = []
    for call in CALLS:
        body = call.body
        for name, value in variables.items():
            body = body.replace(f"'${name}'", value)
        answer: Any = tonnage.rest.request(call.method, call.path, json.loads(body)).json()
        for step in call.wanted:
            assert step in answer, answer
            answer = answer[step]
        if call.variable is None:
            answered.append((call.shown, answer))
        else:
            variables[call.variable] = answer
            tonnage.rest.wait_until_available(answer)
            wait_for(lambda: not tonnage.sql_value(NOT_REPORTED), "a report includes the volume")
    assert [told for _, told in answered] == [shown for shown, _ in answered]


def test_every_filter_has_a_documented_refusal() -> None:
    _, *parts = TITLE.split(PAGE)
    sections = {title: " ".join(text.split()) for title, text in zip(parts[::2], parts[1::2], strict=True)}
    installed = {point.name for point in metadata.distribution("tonnage").entry_points.select(group="tonnage.filters")}
    for name in (*sorted(installed), "BackendStateFilter", "LedgerFilter"):
        assert name in sections, f"docs/refusals.rst has no section {name}"
        assert re.search(rf"{name} refused \d+, nearest \S+#\S+ ", sections[name]), f"{name} refuses nothing there"
    enabled = CONF.read_text(encoding="utf-8")
    assert [name for name in installed if name not in enabled] == []
