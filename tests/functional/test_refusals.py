# SPDX-License-Identifier: Apache-2.0
"""The documentation's refusals are what Tonnage answers, and there is one for each filter."""

import configparser
import json
import pathlib
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import pytest

from tests.functional.deployment import Addresses, Deployment, until

DOCS = pathlib.Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "refusals.rst").read_text(encoding="utf-8")
CONF = DOCS / "examples" / "refusals" / "tonnage.conf"

TITLE = re.compile(r"^(.+)\n=+\n", re.MULTILINE)
BLOCK = re.compile(r"\.\. code-block:: console\n\n((?:   .*\n|\n)+)")
COMMAND = re.compile(
    r"(?:(?P<name>\w+)=\$\()?curl -s (?:-X (?P<method>\w+) )?\$api/(?P<path>\S+) -H \"\$json\" -d '(?P<body>.*)'"
    r" \| jq -r (?P<wanted>\S+?)\)?"
)


@dataclass(frozen=True, slots=True)
class Call:
    """One command of the page: what is asked, which part of the answer is wanted, and what that is there."""

    method: str
    path: str
    body: str
    wanted: list[str]
    shown: str
    variable: str | None


def calls() -> Iterator[Call]:
    """Yield the calls of the page in their order."""
    for block in BLOCK.findall(PAGE):
        for entry in re.split(r"^\$ ", textwrap.dedent(block), flags=re.MULTILINE)[1:]:
            command, *lines = entry.strip().split("\n")
            while lines and lines[0].startswith("> "):
                command = f"{command.removesuffix(chr(92)).rstrip()} {lines.pop(0)[2:].strip()}"
            if command.startswith(("api=", "json=")):
                continue
            found = COMMAND.fullmatch(command)
            assert found is not None, f"this is for people only, not for the test: {command}"
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
    """Tonnage, set up as the page says."""
    parser = configparser.ConfigParser(interpolation=None, default_section="")
    parser.read(CONF, encoding="utf-8")
    sections = {name: dict(parser[name]) for name in parser.sections()}
    defaults = sections.pop("DEFAULT")
    deployment = Deployment(Addresses(), sections, **defaults)
    deployment.host = defaults["host"]
    with deployment:
        yield deployment.start()


def test_every_word_is_what_tonnage_answers(tonnage: Deployment) -> None:
    variables: dict[str, str] = {}
    answered: list[tuple[str, str]] = []
    for call in CALLS:
        body = call.body
        for name, value in variables.items():
            body = body.replace(f"'${name}'", value)
        answer: Any = tonnage.rest.call(call.method, call.path, json.loads(body)).json()
        for step in call.wanted:
            assert step in answer, answer
            answer = answer[step]
        if call.variable is None:
            answered.append((call.shown, answer))
        else:
            variables[call.variable] = answer
            tonnage.rest.made(answer)
            until(lambda: not tonnage.number("SELECT COUNT(*) FROM claims WHERE NOT contained"), "a report has seen it")
    assert [told for _, told in answered] == [shown for shown, _ in answered]


def test_there_is_one_for_each_filter() -> None:
    _, *parts = TITLE.split(PAGE)
    sections = {title: " ".join(text.split()) for title, text in zip(parts[::2], parts[1::2], strict=True)}
    installed = {point.name for point in metadata.distribution("tonnage").entry_points.select(group="tonnage.filters")}
    for name in (*sorted(installed), "BackendStateFilter", "LedgerFilter"):
        assert name in sections, f"docs/refusals.rst has no section {name}"
        assert re.search(rf"{name} refused \d+, nearest \S+#\S+ ", sections[name]), f"{name} refuses nothing there"
    enabled = CONF.read_text(encoding="utf-8")
    assert [name for name in installed if name not in enabled] == []
