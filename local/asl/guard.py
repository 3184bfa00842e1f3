"""The guard of a listener on this machine: the rules of local/net/src/guard.rs, and its reasons."""

import hmac
import ipaddress
import json


def refusal(headers, token):
    """Why a request with these headers, by their lowercase names, is refused; None if it is not."""
    host = headers.get("host", "")
    name, _, port = host.rpartition(":")
    name = name.strip("[]") if port.isdigit() else host
    try:
        ipaddress.ip_address(name)
    except ValueError:
        if name.lower() not in ("localhost", "host.docker.internal"):
            return ("this local service answers to an address, to localhost and to host.docker.internal, and to no other name in "
                    "the Host header")
    if "origin" in headers or headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return "this local service answers no web page: send no Origin, and no Sec-Fetch-Site"
    if not hmac.compare_digest(headers.get("x-amz-security-token", "").encode(), token.encode()):
        return ("this local service answers only to the session token of its start, in X-Amz-Security-Token: read env.sh again, which "
                "has AWS_SESSION_TOKEN")
    return None


def _answer(kind, why):
    """In the words of a service, which every client shows."""
    return json.dumps({"__type": kind, "message": why}).encode()


def refused(why):
    return _answer("AccessDeniedException", why)


def failed(why):
    return _answer("InternalFailure", why)
