"""Writes templates as CloudFormation receives them, each to a file of its name in a directory:

    python tools/translate.py local template.yaml templates/minimal.yaml

The files in local/ are its output; local stacks and tests read them. tools/lint.py also lints templates in this form,
because the linter does not look inside AWS::Serverless::Function: a Runtime that does not exist, or a Timeout out of
range, shows only after the transform.
"""

import hashlib
import json
import logging
import os
import sys

from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse


class NoManagedPolicies:
    """The template names no managed policy, so nothing has to be looked up."""

    def load(self):
        return {}


def translated(path, root="."):
    """The template in this form. What it names has an address that ends in its path from `root`."""
    def placed(location):
        return os.path.relpath(os.path.join(os.path.dirname(path), location), root)

    # The transform derives the partition from a Region; it makes no call.
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    with open(path, encoding="utf-8") as file:
        template = yaml_parse(file.read())
    for resource in template["Resources"].values():
        # `sam package` would upload these. Any address will do; this one names the file.
        properties = resource.get("Properties", {})
        for upload in ("CodeUri", "DefinitionUri"):
            if upload in properties:
                properties[upload] = f"s3://bucket/{placed(properties[upload])}"
        if resource["Type"] == "AWS::Serverless::Application":
            properties["Location"] = f"https://bucket.s3.amazonaws.com/{placed(properties['Location'])}"
    return transform(template, {}, NoManagedPolicies())


def main(directory, *paths):
    # It warns that its metrics are not published, which nobody needs here.
    logging.getLogger("samtranslator.metrics.metrics").disabled = True
    for path in paths:
        with open(path, "rb") as file:
            fingerprint = hashlib.sha256(file.read()).hexdigest()
        document = translated(path)
        # Shows without SAM whether the translation is up to date.
        document.setdefault("Metadata", {})["TranslatedFrom"] = f"{os.path.basename(path)} {fingerprint}"
        name = os.path.splitext(os.path.basename(path))[0]
        with open(os.path.join(directory, f"{name}.json"), "w", encoding="utf-8") as file:
            print(json.dumps(document, indent=1), file=file)


if __name__ == "__main__":
    main(*sys.argv[1:])
