# SPDX-License-Identifier: Apache-2.0
"""Concurrent first conversions to a type in several threads."""

import subprocess
import sys

#: The classes are not known yet, and what the outer one consists of takes a while to be made known.
_PROGRAM = """\
import dataclasses, threading, time
from typing import Annotated
import msgspec
from tonnage.capacity import type_conversion

begun = threading.Event()

def slowly(kind):
    begun.set()
    time.sleep(0.1)
    return kind

class Part(msgspec.Struct):
    a: "slowly(int)"
    b: "str" = "x"

@dataclasses.dataclass
class Whole:
    part: "Part"
    number: "Annotated[int, msgspec.Meta(ge=0)]"
    parts: "list[Part]"

RAW = {"part": {"a": 1}, "number": 1, "parts": [{"a": 2}]}
questions = [
    lambda: type_conversion.convert(RAW, Whole),
    lambda: type_conversion.convert(RAW, Whole),
    lambda: type_conversion.decode(msgspec.json.encode(RAW), Whole),
    lambda: type_conversion.convert([RAW["part"]], list[Part]),
    lambda: type_conversion.decode(b'{"a": 3}', Part),
]
answers = {}

def ask(number):
    assert number == 0 or begun.wait(60)  # the first is still at it
    answers[number] = questions[number]()

threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(questions))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
whole = Whole(Part(1), 1, [Part(2)])
assert answers == {0: whole, 1: whole, 2: whole, 3: [Part(1)], 4: Part(3)}, answers
print("survived")
"""


def test_concurrent_first_conversions_in_threads_all_succeed() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "survived\n", "")
