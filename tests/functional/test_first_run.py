# SPDX-License-Identifier: Apache-2.0
"""The commands of ``README.rst`` and those that the standalone offers, with the configuration of ``make run``."""

import os
import pathlib
import re
import shutil
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests import suites
from tests.functional import console
from tests.functional.deployment import COMMANDS
from tests.servers import base
from tests.servers.base import wait_for

ROOT = pathlib.Path(__file__).parents[2]
README = (ROOT / "README.rst").read_text(encoding="utf-8")
QUICK_START = (ROOT / "docs" / "quickstart.rst").read_text(encoding="utf-8")

ID, SHOWN_ID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "9a10d9c6-671d-44db-b180-06d1e4e42a39"

#: The storage of the configuration, in GiB.
NEEDED_GB = 37


@pytest.fixture
def offers(tmp_path: pathlib.Path) -> Iterator[str]:
    """The output of a standalone with the configuration of ``make run``, on a port and in a folder of its own."""
    if shutil.disk_usage(tmp_path).free < NEEDED_GB * 2**30:
        suites.cannot_run("first run", f"less than {NEEDED_GB} GiB are free in {tmp_path}")
    text = (ROOT / "etc" / "tonnage-standalone.conf").read_text(encoding="utf-8")
    conf, output, port = tmp_path / "tonnage.conf", tmp_path / "output", base.free_port()
    conf.write_text(
        text.replace("listen_port = 8776", f"listen_port = {port}").replace("./var", str(tmp_path / "var")),
        encoding="utf-8",
    )
    arguments = ("--config-file", str(conf))
    subprocess.run([COMMANDS / "tonnage-manage", *arguments, "db", "sync"], check=True, capture_output=True)
    with (
        output.open("w") as file,
        subprocess.Popen(
            [COMMANDS / "tonnage-standalone", *arguments], stdout=file, stderr=subprocess.DEVNULL, cwd=tmp_path
        ) as process,
    ):
        try:
            wait_for(lambda: process.poll() is not None or "Ctrl-C" in output.read_text(), "Tonnage is ready")
            assert process.poll() is None
            yield output.read_text()
        finally:
            process.terminate()
    assert process.returncode == 0


def test_the_first_commands_work_as_they_are_printed(offers: str) -> None:
    [url] = [line.rpartition(" ")[2] for line in offers.splitlines() if line.startswith("Tonnage is ready: ")]
    offered = [line.strip() for line in offers.splitlines() if line.startswith("  ")]
    assert [line.split()[1] for line in offered] == ["pools", "create", "explain"]
    with console.Shell() as shell:
        shell.run(f"cd {ROOT}; unset TONNAGE_URL; export HOME=/nonexistent TONNAGE_URL={url}")
        for command in console.commands(README):
            text = command.text.replace(".venv/bin/tonnage", str(COMMANDS / "tonnage"))
            # Each run has another id.
            printed = ID.sub(SHOWN_ID, shell.run(text))
            assert command.matches(printed), f"{command.text}\n{printed}\ninstead of\n{command.shown}"
    for line, status, start in zip(offered, (0, 0, 3), ("+--", "", "No pool for 100 GiB: 3 pools"), strict=True):
        environment = {name: value for name, value in os.environ.items() if name != "TONNAGE_URL"}
        done = subprocess.run(line, shell=True, capture_output=True, text=True, env=environment, check=False)  # noqa: S602
        assert (done.returncode, done.stderr) == (status, ""), line
        assert done.stdout.startswith(start)


#: The volumes of the quick start's transcript, by the ids that they have there.
QUICK_START_IDS = {
    "9a10d9c6-671d-44db-b180-06d1e4e42a39": "first",
    "7f7c18c6-672c-4e0e-920f-2ba89d56b903": "second",
    "619bb951-59b8-4dcc-bd07-45b509fb6c2d": "fits",
}

#: The parts that differ between machines: ids, owners and dates of files, the space of the file system, a line
#: without a URL.
MACHINES = (
    (ID, "ID"),
    (re.compile(r"^( *\S+ -rw------- 1) \S+ \S+ (\S+) .* ID$", re.MULTILINE), r"\1 \2 ID"),
    (re.compile(r"shared room [0-9.]+"), "shared room"),
    (re.compile(r"tonnage: no configuration is named: .*\n"), ""),
)


def without_machine(text: str) -> str:
    """Return an output without the parts that differ between machines."""
    for pattern, replacement in MACHINES:
        text = pattern.sub(replacement, text)
    # A listing of files is in the order of their ids.
    return "".join(sorted(text.splitlines(keepends=True))) if text.startswith("total ") else text


@pytest.mark.heavy
def test_the_quick_start_works_as_it_is_printed(offers: str, tmp_path: pathlib.Path) -> None:
    """Each command has the output of the page, within a minute: volumes are made and deleted after the answer."""
    if shutil.which("sqlite3") is None:
        suites.cannot_run("quick start", "there is no sqlite3; install the package sqlite3")
    [url] = [line.rpartition(" ")[2] for line in offers.splitlines() if line.startswith("Tonnage is ready: ")]
    _, _, page = QUICK_START.partition("The first volume\n=====")
    page, rest, _ = page.partition("The usual clients\n=====")
    assert rest
    checked = 0
    with console.Shell() as shell:
        shell.run(f"cd {tmp_path}; export HOME=/nonexistent TONNAGE_URL={url}")
        for command in console.commands(page):
            text = command.text.replace(".venv/bin/tonnage", str(COMMANDS / "tonnage"))
            text = text.replace("http://127.0.0.1:8776", url)
            for shown_id, name in QUICK_START_IDS.items():
                if shown_id in text:
                    # A reader is slower than the storage, which refuses to delete an unfinished volume.
                    wait_for(lambda: not ID.search(shell.run('curl -s "$api/volumes?status=creating"')), "all are made")
                    query = f'curl -s "$api/volumes?name={name}"'
                    text = text.replace(shown_id, ID.search(shell.run(query))[0])  # type: ignore[index]
            expected = re.sub(r"\s*\.\.\.\s*", "...", without_machine(command.shown))  # JSON has no blanks there
            shown = console.Command(command.text, command.root, expected)
            # A request that is refused can be repeated: its figures are those of the page after the next report.
            makes = (" -d " in text or "tonnage create" in text) and "conflictingRequest" not in shown.shown
            end = time.monotonic() + (0 if makes else 60)
            printed = without_machine(shell.run(text))
            # A refused request changes nothing: the next report has the capacity of deleted volumes.
            refused = time.monotonic() + 60
            while "conflictingRequest" in printed and "conflictingRequest" not in shown.shown:
                assert time.monotonic() < refused, f"{text}\n{printed}"
                time.sleep(0.2)
                printed = without_machine(shell.run(text))
            while shown.shown and not shown.matches(printed):
                assert time.monotonic() < end, f"{text}\n{printed}\ninstead of\n{shown.shown}"
                time.sleep(0.2)
                printed = without_machine(shell.run(text))
            checked += bool(shown.shown)
    assert checked > 8
