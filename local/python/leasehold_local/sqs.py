"""Messages for a function behind SQS, as its event source mapping delivers them."""

from __future__ import annotations

import json
import uuid
from typing import Any, Callable, Dict, List, Sequence, Tuple


def deliver(function: Callable[[Dict[str, Any]], Any], bodies: Sequence[Any], receives: int = 3, batch_size: int = 10) -> List[Any]:
    """Delivers messages with these bodies (JSON) to a function, and what it did not do again, up to `receives` times each.

    `function` gets the event and returns the response: `lambda event: handler(event, None)`, or an invocation of a function of the
    stack. Of a response the items in `batchItemFailures` come again; of an exception, or a response that cannot be read, the whole
    batch, as with `ReportBatchItemFailures`. Returns the bodies that a dead-letter queue would get. No time passes between two
    deliveries: what `VisibilityTimeout` is for happens before the call, or in it.
    """
    waiting: List[Tuple[str, Any, int]] = [(str(uuid.uuid4()), body, 1) for body in bodies]
    dead: List[Any] = []
    while waiting:
        batch, waiting = waiting[:batch_size], waiting[batch_size:]
        failed = _failed(function, {"Records": [_record(*message) for message in batch]})
        for name, body, count in batch:
            if failed is None or name in failed:
                if count < receives:
                    waiting.append((name, body, count + 1))
                else:
                    dead.append(body)
    return dead


def _failed(function: Callable[[Dict[str, Any]], Any], event: Dict[str, Any]) -> Any:
    """The messages that were not done; None for all of them."""
    try:
        response = function(event)
        return {item["itemIdentifier"] for item in (response or {}).get("batchItemFailures") or []}
    except Exception:
        return None


def _record(name: str, body: Any, count: int) -> Dict[str, Any]:
    return {
        "messageId": name,
        "receiptHandle": f"{name}-{count}",
        "body": json.dumps(body),
        "attributes": {"ApproximateReceiveCount": str(count)},
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:messages",
        "awsRegion": "us-east-1",
    }
