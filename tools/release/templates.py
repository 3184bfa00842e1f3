"""Writes the templates for an installation without Rust, each to a file of its name in a directory:

    python tools/release/templates.py dist/leasehold-0.1.0

leasehold.json, monitoring.json, samples.json and minimal.json are plain CloudFormation: local/*.json, with code, definitions and
nested templates in a bucket that two parameters name. template.yaml, and templates/ with the other three, are SAM
templates that use the zips of functions/; template-x86_64.yaml is template.yaml for the other instruction set.
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUCKET, PREFIX = "CodeBucket", "CodePrefix"
# Each template with the name of its file; the first two are stacks, and the others are nested in the first.
FILES = {"template": "leasehold", "minimal": "minimal", "monitoring": "monitoring", "samples": "samples"}
STACKS = ["template", "minimal"]
# The address that the translation gives to a nested template.
NESTED = re.compile(r"https://bucket\.s3\.amazonaws\.com/templates/(\w+)\.yaml")


def version():
    return re.search(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text(encoding="utf-8"), re.MULTILINE)[1]


def parameters(top):
    """The parameters that name the bucket; a nested template gets them from its parent."""
    bucket = {
        "Type": "String",
        "AllowedPattern": "^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$",
        "Description": "Name of the S3 bucket, in the stack's Region, with the files of the release.",
    }
    prefix = {
        "Type": "String",
        "AllowedPattern": "^([^/].*/)?$",
        "Description": "Prefix of the names of these objects: empty, or ending in a slash. It contains the version so that an update uses the new code.",
    }
    return {BUCKET: bucket, PREFIX: {**prefix, "Default": f"leasehold-{version()}/"} if top else prefix}


def key(name):
    return {"Fn::Sub": f"${{{PREFIX}}}{name}"}


def plain(name):
    """A translated template, with every placeholder address of the translation replaced by one in the bucket."""
    template = json.loads((ROOT / "local" / f"{name}.json").read_text(encoding="utf-8"))
    needed = False
    for logical, resource in template["Resources"].items():
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::Lambda::Function":
            function = properties["Code"]["S3Key"].removeprefix("functions/")
            properties["Code"] = {"S3Bucket": {"Ref": BUCKET}, "S3Key": key(f"functions/{function}-${{Architecture}}.zip")}
            # Only for SAM's build.
            resource.pop("Metadata", None)
        elif "DefinitionS3Location" in properties:
            properties["DefinitionS3Location"] = {"Bucket": {"Ref": BUCKET}, "Key": key(properties["DefinitionS3Location"]["Key"])}
        elif resource["Type"] == "AWS::CloudFormation::Stack":
            nested = NESTED.fullmatch(properties["TemplateURL"])[1]
            url = f"https://s3.${{AWS::Region}}.${{AWS::URLSuffix}}/${{{BUCKET}}}/${{{PREFIX}}}{nested}.json"
            properties["TemplateURL"] = {"Fn::Sub": url}
            if plain(nested)["Parameters"].keys() >= {BUCKET, PREFIX}:
                properties["Parameters"] |= {BUCKET: {"Ref": BUCKET}, PREFIX: {"Ref": PREFIX}}
        else:
            continue
        needed = True
    if needed:
        template["Parameters"] |= parameters(name in STACKS)
        groups = template["Metadata"].get("AWS::CloudFormation::Interface", {}).get("ParameterGroups")
        if groups:
            groups.insert(0, {"Label": {"default": "Files of the release"}, "Parameters": [BUCKET, PREFIX]})
    text = json.dumps(template)
    left = re.search(r'"bucket"|//bucket\.|functions/\w+"', text)
    if left:
        raise SystemExit(f"local/{name}.json: {left[0]} is left, which is in no bucket")
    return template


def named_zips(text, architecture):
    """The SAM template as written, but with a zip for each function instead of a build."""
    text = re.sub(r"(CodeUri: (?:\.\./)?functions/\w+)", rf"\1-{architecture}.zip", text)
    text = re.sub(r"    Metadata: \{BuildMethod: rust-cargolambda, .*\}\n", "", text)
    before = "    Default: arm64\n    AllowedValues: [arm64, x86_64]\n"
    if before not in text or "BuildMethod" in text:
        raise SystemExit("a template's architecture or its way to build a function has another form")
    text = text.replace(before, f"    Default: {architecture}\n    AllowedValues: [{architecture}]\n")
    return re.sub(r"(Description: Instruction set of all functions);.*", r"\1, which is that of the zips named here.", text)


def main(directory):
    directory = Path(directory)
    (directory / "templates").mkdir(parents=True, exist_ok=True)
    for name, file in FILES.items():
        (directory / f"{file}.json").write_text(json.dumps(plain(name), indent=1) + "\n", encoding="utf-8")
    for source, architecture, file in (
        ("template", "arm64", "template.yaml"),
        ("template", "x86_64", "template-x86_64.yaml"),
        ("templates/minimal", "arm64", "templates/minimal.yaml"),
    ):
        written = (ROOT / f"{source}.yaml").read_text(encoding="utf-8")
        (directory / file).write_text(named_zips(written, architecture), encoding="utf-8")
    for name in ("templates/monitoring.yaml", "templates/samples.yaml"):
        (directory / name).write_bytes((ROOT / name).read_bytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
