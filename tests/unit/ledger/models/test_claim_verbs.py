# SPDX-License-Identifier: Apache-2.0
"""The verbs of claims are those of the commands to agents."""

from tonnage.ledger import models
from tonnage.ledger.models import claim_verbs
from tonnage.rpc.messages import Verb

VERBS = {value for name, value in vars(claim_verbs).items() if name.isupper()}


def test_each_command_to_an_agent_has_a_claim_with_its_verb() -> None:
    """The ledger does not import the messages, and compares the column with these texts."""
    assert {verb.value for verb in Verb} == VERBS


def test_the_columns_have_room_for_each_verb() -> None:
    for model in (models.Claim, models.Refusal):
        length = getattr(models.table(model).c.verb.type, "length", None)
        assert length is not None
        assert max(map(len, VERBS)) <= length
