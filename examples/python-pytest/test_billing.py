"""The fixture leasehold_stack starts the stack, once for all tests, and points boto3 at it."""

import pytest

from billing import behind_sqs, bill
from leasehold_local.sqs import deliver

pytestmark = pytest.mark.usefixtures("leasehold_stack")


def test_one_at_a_time():
    assert bill("1", lambda order: bill(order, lambda _: "paid twice")) == "somebody else is at it"
    assert bill("1", lambda _: "paid") == "paid"


def test_failure_leaves_order_free():
    def declined(_):
        raise ValueError("declined")

    with pytest.raises(ValueError, match="declined"):
        bill("2", declined)
    assert bill("2", lambda _: "paid") == "paid"


def test_order_behind_sqs_comes_again_while_its_key_is_held():
    events = []

    def function(event):
        events.append([record["body"] for record in event["Records"]])
        return behind_sqs(event, lambda _: "paid")

    # The first delivery comes while somebody has the key of order 3.
    def first(event):
        return bill("3", lambda _: function(event)) if not events else function(event)

    assert deliver(first, [{"order": "3"}, {"order": "4"}]) == []
    assert events == [['{"order": "3"}', '{"order": "4"}'], ['{"order": "3"}']]
    # One that fails each time ends in the dead-letter queue.
    assert deliver(lambda event: bill("5", lambda _: function(event)), [{"order": "5"}], receives=2) == [{"order": "5"}]
