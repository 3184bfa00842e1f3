"""Lints the templates below each given directory, as they are written and as CloudFormation receives them.

    python tools/lint.py [--only written|translated] . [another copy of the repository ...]

`sam validate --lint` lints them as written. cfn-lint lints them as translated, with the definitions of the state machines
included, because it does not follow a DefinitionUri. Prints a line for each problem, and fails if there is one.
"""

import argparse
import contextlib
import functools
import io
import json
import logging
import os
import sys
from multiprocessing import Pool
from pathlib import Path

from cfnlint.config import ConfigMixIn
from cfnlint.decode.utils import convert_dict
from cfnlint.runner import Runner

from translate import translated

# cfn-lint 1.58 requires a number here, but Step Functions also takes JSONata: the linter gets a number instead.
JSONATA_OR_NUMBER = ("MaxConcurrency", "Seconds", "TimeoutSeconds")


def written(template):
    """The problems that `sam validate --lint` reports. It runs in this process, because its start takes longer than its work."""
    from samcli.cli.main import cli

    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            cli.main(["validate", "--lint", "--template", str(template)], standalone_mode=False)
    # Any error of the command is a problem, reported with its text.
    except (Exception, SystemExit) as refusal:
        return [line for line in f"{said.getvalue()}\n{refusal}".splitlines() if line.strip()]
    return [] if "is a valid SAM Template" in said.getvalue() else [f"no verdict: {said.getvalue()}"]


def as_translated(template):
    """The problems that cfn-lint reports for the transformed template."""
    try:
        document = translated(template, template.parent)
        for resource in document["Resources"].values():
            if resource["Type"] == "AWS::StepFunctions::StateMachine":
                put_in(resource["Properties"], template)
    except Exception as refusal:
        return [f"{type(refusal).__name__}: {refusal}"]
    document = convert_dict(json.loads(json.dumps(document)))
    matches = linter().validate_template(document)
    return [f"{match.rule.id}: {match.message} ({'/'.join(map(str, match.path))})" for match in matches]


@functools.cache
def linter():
    """Cached, because reading the rules takes half as long as applying them once."""
    return Runner(ConfigMixIn(regions=["us-east-1"]))


def put_in(properties, template):
    """Replaces the location of the definition by the definition itself; its substitutions stay beside it."""
    location = properties.pop("DefinitionS3Location", None)
    if location is not None:
        with open(template.parent / location["Key"], encoding="utf-8") as file:
            # cfn-lint accepts no substitution for the partition, and knows only one partition.
            properties["Definition"] = with_numbers(json.loads(file.read().replace("${Partition}", "aws")))


def with_numbers(value):
    if isinstance(value, list):
        return [with_numbers(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: 1 if name in JSONATA_OR_NUMBER and isinstance(inner, str) and inner.startswith("{%") else with_numbers(inner)
        for name, inner in value.items()
        # A Parallel state may have Parameters, but cfn-lint's schema lacks them.
        if not (name == "Parameters" and value.get("Type") == "Parallel")
    }


CHECKS = {"written": written, "translated": as_translated}


def lint(task):
    name, template = task
    return [f"{template}: {name}: {problem}" for problem in CHECKS[name](template)]


def templates(root):
    """The stack's own templates, and those of the examples."""
    return [*sorted(root.glob("*.yaml")), *sorted(root.glob("templates/*.yaml")), *sorted(root.glob("examples/**/template.yaml"))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=CHECKS)
    parser.add_argument("roots", nargs="+", type=Path)
    wanted = parser.parse_args()
    os.environ["SAM_CLI_TELEMETRY"] = "0"
    # It warns that its metrics are not published, which nobody needs here.
    logging.getLogger("samtranslator.metrics.metrics").disabled = True
    names = [wanted.only] if wanted.only else list(CHECKS)
    tasks = [(name, template) for root in wanted.roots for template in templates(root) for name in names]
    if "translated" in names:
        linter()
    with Pool(min(len(tasks), os.cpu_count() or 1)) as pool:
        problems = [problem for found in pool.imap(lint, tasks) for problem in found]
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(1)
    print(f"lint: no problem in {len({template for _, template in tasks})} templates, {' and '.join(names)}")


if __name__ == "__main__":
    main()
