"""Prints template.yaml as CloudFormation gets it. tools/lint.py lints it in that form, too.

The linter does not look inside AWS::Serverless::Function: a Runtime that does not exist, or a Timeout out of range,
shows only in what the transform makes of it.
"""

import json
import os
import sys

from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse


class NoManagedPolicies:
    """The template names no managed policy, so nothing has to be looked up."""

    def load(self):
        return {}


def translated(path):
    # The transform asks for a Region to tell its partition; no call is made.
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    with open(path, encoding="utf-8") as file:
        template = yaml_parse(file.read())
    for resource in template["Resources"].values():
        # `sam package` would have uploaded these; any address will do, and this one tells what is there.
        properties = resource.get("Properties", {})
        for upload in ("CodeUri", "DefinitionUri"):
            if upload in properties:
                properties[upload] = f"s3://bucket/{properties[upload]}"
        if resource["Type"] == "AWS::Serverless::Application":
            properties["Location"] = f"https://bucket.s3.amazonaws.com/{properties['Location']}"
    return transform(template, {}, NoManagedPolicies())


if __name__ == "__main__":
    json.dump(translated(sys.argv[1]), sys.stdout, indent=1)
    print()
