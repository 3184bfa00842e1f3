#!/usr/bin/env python3
"""A local AWS Step Functions endpoint, for tests and for a laptop.

The interpreter is moto's (itself taken from LocalStack). This launcher sends its Task states to
other local endpoints, fills the gaps that affect the shipped state machines, and serves the result:

    AWS_SESSION_TOKEN=secret AWS_ENDPOINT_URL_LAMBDA=http://127.0.0.1:9000 python engine.py -p 8083

Ready when it prints its address. Account 123456789012; any Region.

Environment
    AWS_SESSION_TOKEN       required: requests with any other one are refused, see guard.py
    AWS_ENDPOINT_URL_LAMBDA, _DYNAMODB, _SFN or _STEPFUNCTIONS, ...   where Task states go; a service
        without one goes to this process (moto's own emulation of it)
    SFN_STATUS_EVENTS_URL   POST every "Step Functions Execution Status Change" event there

The patches are in the other modules of this directory. Each names the gap that it fills:
    expressions.py  JSONata            tasks.py  what a Task state calls, and its errors
    states.py       how states behave  executions.py  life of an execution, redrive included
    tokens.py       task tokens     api.py  the service's API
They replace internals of the exact moto release in requirements.txt.
"""

import os

PARENT = os.getppid()  # before the slow imports: a parent that dies during them is noticed too

import argparse  # noqa: E402
import functools  # noqa: E402
import logging  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
import traceback  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(description="A local AWS Step Functions endpoint.")
    parser.add_argument("-p", "--port", type=int, default=8083, help="0 picks a free one")
    parser.add_argument(
        "--exit-with-parent", action="store_true", help="end when the process that started this one ends"
    )
    parser.add_argument("--verbose", action="store_true", help="log requests and failing states to stderr")
    return parser.parse_args()


def guarded(application):
    """Refuses what local/net/src/guard.rs refuses, by the same rules. A request that fails unexpectedly is answered with the reason."""
    import guard

    def answer(environ, start_response):
        headers = {name[5:].lower().replace("_", "-"): value for name, value in environ.items() if name.startswith("HTTP_")}
        why = guard.refusal(headers, os.environ["AWS_SESSION_TOKEN"])
        try:
            if why is None:
                return application(environ, start_response)
            status, body = "403 Forbidden", guard.refused(why)
        except Exception:
            trace = traceback.format_exc()
            sys.stderr.write(trace)
            status, body = "500 Internal Server Error", guard.failed(trace)
        start_response(status, [("Content-Type", "application/x-amz-json-1.0")])
        return [body]

    return answer


def server(port):
    from moto.core.config import default_user_config

    # Run the definitions (by default moto only pretends to), and never look for a Docker daemon.
    default_user_config["stepfunctions"] = {"execute_state_machine": True}
    default_user_config["lambda"] = {"use_docker": False}

    # tasks comes first, because it replaces a function that the interpreter's modules import by name.
    import tasks
    import expressions
    import states
    import executions
    import tokens
    import api

    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    for module in (tasks, expressions, states, executions, tokens, api):
        module.install()
    application = DomainDispatcherApplication(create_backend_app)
    # Each request lists moto's directory, under a lock that every request needs.
    application.get_backend_for_host = functools.lru_cache(maxsize=64)(application.get_backend_for_host)
    listening = make_server(
        "127.0.0.1", port, guarded(application), threaded=True, request_handler=MotoRequestHandler
    )
    os.environ["MOTO_PORT"] = str(listening.server_port)
    return listening


def main():
    args = arguments()
    if not args.verbose:
        # The interpreter logs every caught error of a definition as an error of its own. A request that fails unexpectedly is
        # logged by "moto" itself, and shown.
        logging.getLogger("moto.stepfunctions").setLevel(logging.CRITICAL)
        logging.getLogger("werkzeug").setLevel(logging.ERROR)

    serving = server(args.port)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    print(f"Step Functions on http://127.0.0.1:{serving.server_port}", flush=True)

    while not stop.wait(0.2):
        if args.exit_with_parent and os.getppid() != PARENT:
            break
    serving.shutdown()
    serving.server_close()
    sys.stdout.flush()
    # Executions may be in a Task or a Wait, so this does not wait for their threads.
    os._exit(0)


if __name__ == "__main__":
    main()
