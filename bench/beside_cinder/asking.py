# SPDX-License-Identifier: Apache-2.0
"""Real Cinder to ask: its newest release in a process of its own, with the older one that calculated otherwise."""

import contextlib
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Generator, Iterable
from dataclasses import asdict
from typing import Any

from beside_cinder import cases

#: The release whose capacity filter is ``cinder`` of ``over_provisioning_calculation``, before it became ``standard``.
OLDER = "17.4.0"

#: From 3.3 on, which Cinder's requirements let in, an expression with a name in it is an error to Cinder.
PARSER = "3.2.5"


def unpack_older(cache: pathlib.Path) -> pathlib.Path:
    """Return the folder with the older release's modules, fetched from the package index if it is not in the cache.

    Raises RuntimeError if it is not to be had.
    """
    folder = cache / f"cinder-{OLDER}-modules"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        # Its requirements are those of years ago; nothing of it is installed.
        _pip("download", "--dest", scratch, f"cinder=={OLDER}")
        [wheel] = pathlib.Path(scratch).glob("*.whl")
        unpacked = pathlib.Path(scratch) / "unpacked"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked)
        unpacked.rename(folder)
    return folder


def fetch_parser(cache: pathlib.Path) -> pathlib.Path:
    """Return a folder with the parser that Cinder's language of expressions works with, fetched if it is not there.

    Raises RuntimeError if it is not to be had.
    """
    folder = cache / f"pyparsing-{PARSER}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            target = pathlib.Path(scratch) / "target"
            _pip("install", "--target", str(target), f"pyparsing=={PARSER}")
            target.rename(folder)
    return folder


def _pip(command: str, *arguments: str) -> None:
    """Run pip for one package; its last words are the error if it cannot."""
    options = ["--quiet", "--no-deps", "--only-binary=:all:"]
    pip = [sys.executable, "-m", "pip", command, *options, *arguments]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().rpartition("\n")[2]
        raise RuntimeError(f"{arguments[-1]} is not to be had: {said}")


def answers(python: pathlib.Path, cache: pathlib.Path, asked: Iterable[cases.Case]) -> Generator[Any, None, None]:
    """Yield what Cinder says to each case: a verdict for each pool, or weights.

    The cache is a folder for what is fetched from the package index. Raises RuntimeError if that is not to be had, or
    if Cinder's process ends before it has answered all.
    """
    older, parser = unpack_older(cache), fetch_parser(cache)
    variables = {**os.environ, "PYTHONPATH": str(parser)}
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "log"
        setting = {
            "folder": folder,
            "older": str(older),
            "volumes": {"p": cases.VOLUMES, "q": cases.FOREIGN},
            "instances": cases.INSTANCES,
        }
        with log.open("w") as said:
            program = pathlib.Path(__file__).with_name("peer.py")
            pipe = subprocess.PIPE
            peer = subprocess.Popen([python, program], stdin=pipe, stdout=pipe, stderr=said, text=True, env=variables)
        writer = threading.Thread(target=_write, args=[peer, setting, asked], daemon=True)
        writer.start()
        assert peer.stdout is not None
        try:
            yield from map(json.loads, peer.stdout)
            status = peer.wait()
        finally:
            peer.kill()
            peer.wait()
            writer.join()
            peer.stdout.close()
        if status:
            raise RuntimeError(f"Cinder's process ended with {status}: {log.read_text()[-2000:]}")


def _write(peer: "subprocess.Popen[str]", setting: object, asked: Iterable[cases.Case]) -> None:
    assert peer.stdin is not None
    # Where it has ended nobody reads; whoever waits for its answers finds that out.
    with contextlib.suppress(BrokenPipeError), peer.stdin as pipe:
        for line in itertools.chain([setting], map(asdict, asked)):
            pipe.write(json.dumps(line) + "\n")
