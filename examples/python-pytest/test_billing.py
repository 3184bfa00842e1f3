"""The fixture leasehold_stack starts the stack, once for all tests, and points boto3 at it."""

import pytest

from billing import bill

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
