"""MiniStack, behind the guard of asl/guard.py. By itself it answers any web page that a browser on this machine shows, and would run
whatever function the page uploads.

Environment
    AWS_SESSION_TOKEN   required: requests with any other one are refused. The functions inherit it
    the rest            MiniStack's own
"""

import http.server
import os
import sys
from pathlib import Path

# At the end: the engine's modules have names that a package could have too.
sys.path.append(str(Path(__file__).resolve().parent / "asl"))

import guard  # noqa: E402
from ministack import app as ministack  # noqa: E402

TOKEN = os.environ["AWS_SESSION_TOKEN"]


def guarded(application):
    async def answer(scope, receive, send):
        if scope["type"] == "lifespan":
            return await application(scope, receive, send)
        why = guard.refusal({name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}, TOKEN)
        if why is None:
            return await application(scope, receive, send)
        if scope["type"] == "websocket":
            return await send({"type": "websocket.close"})
        await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"application/x-amz-json-1.0")]})
        return await send({"type": "http.response.body", "body": guard.refused(why)})

    return answer


def guard_runtimes():
    """Each running function has a server of the standard library on a port of its own, for Lambda's runtime, which sends no token."""
    parse = http.server.BaseHTTPRequestHandler.parse_request

    def parse_request(self):
        if not parse(self):
            return False
        why = guard.refusal({**{name.lower(): value for name, value in self.headers.items()}, "x-amz-security-token": TOKEN}, TOKEN)
        if why is not None:
            self.send_error(403, why)
        return why is None

    http.server.BaseHTTPRequestHandler.parse_request = parse_request


if __name__ == "__main__":
    guard_runtimes()
    ministack.app = guarded(ministack.app)
    ministack.main()
