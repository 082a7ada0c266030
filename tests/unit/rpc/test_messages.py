# SPDX-License-Identifier: Apache-2.0
"""The nonce of an agent process, the only message with a text form of its own."""

import pytest

from tonnage.rpc.messages import AgentProcess


@pytest.mark.parametrize("name", ["4711@node-1", "4711@", "4711@a/b"])
def test_a_process_is_read_back_from_its_nonce(name: str) -> None:
    process = AgentProcess("3f2a", "9c1b", name)
    assert AgentProcess.from_nonce(process.nonce) == process


@pytest.mark.parametrize("nonce", ["", "3f2a", "3f2a/9c1b"])
def test_a_text_of_another_form_is_no_process(nonce: str) -> None:
    assert AgentProcess.from_nonce(nonce) is None
