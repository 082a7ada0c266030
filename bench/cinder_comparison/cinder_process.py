# SPDX-License-Identifier: Apache-2.0
"""A process with real Cinder: its newest release, and the older release with the other capacity calculation."""

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

from cinder_comparison import cases

#: The last release with the capacity filter that ``over_provisioning_calculation = cinder`` follows.
OLDER = "17.4.0"

#: The last usable release: with 3.3, which Cinder's requirements permit, Cinder rejects expressions that contain names.
PARSER = "3.2.5"


def unpack_older(cache: pathlib.Path) -> pathlib.Path:
    """Return the folder with the older release's modules, downloaded from the package index if not in the cache.

    Raises RuntimeError if the download fails.
    """
    folder = cache / f"cinder-{OLDER}-modules"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        # Its requirements are years old, so it is unpacked and not installed.
        _pip("download", "--dest", scratch, f"cinder=={OLDER}")
        [wheel] = pathlib.Path(scratch).glob("*.whl")
        unpacked = pathlib.Path(scratch) / "unpacked"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked)
        unpacked.rename(folder)
    return folder


def fetch_parser(cache: pathlib.Path) -> pathlib.Path:
    """Return a folder with the parser for Cinder's expressions, downloaded if not in the cache.

    Raises RuntimeError if the download fails.
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
    """Run pip for one package. Raises RuntimeError with the last line of pip's error output if it fails."""
    options = ["--quiet", "--no-deps", "--only-binary=:all:"]
    pip = [sys.executable, "-m", "pip", command, *options, *arguments]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().rpartition("\n")[2]
        raise RuntimeError(f"{arguments[-1]} is not available: {said}")


def answers(python: pathlib.Path, cache: pathlib.Path, asked: Iterable[cases.Case]) -> Generator[Any, None, None]:
    """Yield Cinder's answer to each case: a verdict for each pool, or weights.

    ``cache`` is a folder for downloads from the package index. Raises RuntimeError if a download fails, or if Cinder's
    process ends before the last answer.
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
            program = pathlib.Path(__file__).with_name("cinder_answers.py")
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
    # If the process has ended, the reader of its answers raises the error.
    with contextlib.suppress(BrokenPipeError), peer.stdin as pipe:
        for line in itertools.chain([setting], map(asdict, asked)):
            pipe.write(json.dumps(line) + "\n")
