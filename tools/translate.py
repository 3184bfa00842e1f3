"""Prints template.yaml as CloudFormation gets it. local/template.json is its output, which local stacks and tests read, and
tools/lint.py lints it in that form, too.

The linter does not look inside AWS::Serverless::Function: a Runtime that does not exist, or a Timeout out of range,
shows only in what the transform makes of it.
"""

import hashlib
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


def main(path):
    with open(path, "rb") as file:
        fingerprint = hashlib.sha256(file.read()).hexdigest()
    document = translated(path)
    # By this, who has no SAM can tell whether the translation is up to date.
    document.setdefault("Metadata", {})["TranslatedFrom"] = f"{os.path.basename(path)} {fingerprint}"
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main(sys.argv[1])
