"""Compares examples/terraform with the plain template: the module's variables and outputs are the template's parameters and outputs, and
the example gives and reads only what is there. Terraform itself does not run; python-hcl2 parses the files. A second test shows
that each check detects a fault. With --write it writes the module's variables, parameters and outputs instead."""

import re
import sys
import textwrap
import unittest
from pathlib import Path

import hcl2

from release.templates import plain

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "terraform"
GENERATED = "# Generated from the template by `make translate`: change template.yaml instead.\n"
# A list is a variable in the plural.
PLURAL = {name: f"{name}s" for name in ("LeasingStateMachine", "StartedStateMachine", "DurableFunction")}
# One variable has all of these parameters.
CONCURRENCY = re.compile(r"(Start|Acquire|Extend|Release|Sweep|Reap|Inspect|Operate)Concurrency")
# What switches something on and off, as a parameter writes it.
SWITCHES = [["enabled", "disabled"], ["true", "false"]]
FIRST = """
variable "name" {
  type        = string
  default     = "leasehold"
  nullable    = false
  description = "Name of the CloudFormation stack. The names of its functions and state machines begin with it."

  validation {
    condition     = can(regex("^[a-zA-Z][a-zA-Z0-9-]{0,127}$", var.name))
    error_message = "Must begin with a letter, and have at most 128 letters, digits and hyphens."
  }
}
"""
LAST = """
# Others

variable "more_parameters" {
  type        = map(string)
  default     = {}
  nullable    = false
  description = "Parameters of a newer template that have no variable here, by their names in the template."
}

variable "tags" {
  type        = map(string)
  default     = {}
  nullable    = false
  description = "Tags of the stack, which CloudFormation adds to every resource that supports tags."
}
"""
RESERVED = """
variable "reserved_concurrency" {
  type        = map(number)
  default     = {}
  nullable    = false
  description = "Reserved concurrency of functions, which is also their maximum, by name, such as { extend = 10, release = 10 }."

  validation {
    condition     = alltrue([for name in keys(var.reserved_concurrency) : contains(%s, name)])
    error_message = "Only these functions have one: %s."
  }
}
"""


def read():
    return {str(path.relative_to(EXAMPLE)): path.read_text(encoding="utf-8") for path in sorted(EXAMPLE.rglob("*.tf"))}


def parsed(files, *names):
    """The blocks of these files by kind and name; for a resource the type comes before the name."""
    found = {}
    for name in names:
        for kind, blocks in hcl2.loads(files[name]).items():
            for block in blocks:
                if isinstance(block, dict):
                    found.setdefault(kind, {}).update({key.strip('"'): value for key, value in block.items() if not key.startswith("__")})
    return found


def snake(name):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def variable_of(name):
    concurrency = CONCURRENCY.fullmatch(name)
    return f"reserved_concurrency.{concurrency[1].lower()}" if concurrency else snake(PLURAL.get(name, name))


def quoted(value):
    if isinstance(value, list):
        return "[" + ", ".join(map(quoted, value)) + "]"
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' if isinstance(value, str) else str(value)


def kind_of(parameter):
    if parameter.get("AllowedValues") in SWITCHES:
        return "bool"
    return {"Number": "number", "CommaDelimitedList": "list(string)", "String": "string"}[parameter["Type"]]


def default_of(parameter):
    default, kind = parameter["Default"], kind_of(parameter)
    if kind == "bool":
        return "true" if default == parameter["AllowedValues"][0] else "false"
    return quoted([one for one in default.split(",") if one] if kind == "list(string)" else default)


def validation(parameter, variable):
    """What the template demands of a parameter, for each element of a list."""
    kind, pattern = kind_of(parameter), parameter.get("AllowedPattern")
    one = "one" if kind == "list(string)" else f"var.{variable}"
    if kind == "bool":
        return ""
    if "AllowedValues" in parameter:
        allowed = parameter["AllowedValues"]
        condition, message = f"contains({quoted(allowed)}, {one})", f"Must be one of {', '.join(map(str, allowed))}."
    elif "MinValue" in parameter:
        least, most = parameter["MinValue"], parameter["MaxValue"]
        condition = f"{one} >= {least} && {one} <= {most} && floor({one}) == {one}"
        message = f"Must be a whole number from {least} to {most}."
    elif pattern:
        whole = pattern if pattern.startswith("^") else f"^({pattern})$"
        condition, message = f"can(regex({quoted(whole)}, {one}))", f"Must match {whole}."
    else:
        return ""
    if kind == "list(string)":
        condition, message = f"alltrue([for one in var.{variable} : {condition}])", f"Each {message[0].lower()}{message[1:]}"
    return f"\n  validation {{\n    condition     = {condition}\n    error_message = {quoted(message)}\n  }}\n"


def variable(name, parameter, names):
    """A variable with the default of the parameter, and its description, in which other parameters are variables."""
    own = variable_of(name)
    said = re.sub(r"\b(" + "|".join(names) + r")\b", lambda found: variable_of(found[0]), parameter["Description"])
    if len(said) > 110:
        lines = textwrap.indent(textwrap.fill(said, 120, break_long_words=False, break_on_hyphens=False), "    ")
        description = f"  description = <<-EOT\n{lines}\n  EOT\n"
    else:
        description = f"  description = {quoted(said)}\n"
    # Null is the default too.
    default = f"  default     = {default_of(parameter)}\n  nullable    = false\n" if "Default" in parameter else ""
    return f'\nvariable "{own}" {{\n  type        = {kind_of(parameter)}\n{default}{description}{validation(parameter, own)}}}\n'


def written_variables(template):
    text, functions, parameters = GENERATED + FIRST, [], template["Parameters"]
    for group in template["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]:
        text += f"\n# {group['Label']['default']}\n"
        for name in group["Parameters"]:
            concurrency = CONCURRENCY.fullmatch(name)
            if concurrency:
                functions.append(concurrency[1].lower())
            else:
                text += variable(name, parameters[name], parameters)
    return text + RESERVED % (quoted(functions), ", ".join(functions)) + LAST


def written_parameters(template):
    names = [name for name in template["Parameters"] if not CONCURRENCY.fullmatch(name)]
    width = max(map(len, names))
    text = GENERATED + "\nlocals {\n  # As CloudFormation expects them: a list is one text with commas.\n  parameters = {\n"
    for name in names:
        parameter, value = template["Parameters"][name], f"var.{variable_of(name)}"
        if kind_of(parameter) == "list(string)":
            value = f'join(",", {value})'
        elif parameter.get("AllowedValues") == SWITCHES[0]:
            value = f'{value} ? "enabled" : "disabled"'
        text += f"    {name.ljust(width)} = {value}\n"
    return text + '  }\n  concurrency = { for name, number in var.reserved_concurrency : "${title(name)}Concurrency" => number }\n}\n'


def written_outputs(template):
    """The module's outputs. One that may be missing is looked up, and is null then."""
    text = GENERATED + "# A conditional output is null if its condition is false.\n"
    for name, output in template["Outputs"].items():
        stack = "aws_cloudformation_stack.leasehold.outputs"
        value = f'lookup({stack}, "{name}", null)' if "Condition" in output else f'{stack}["{name}"]'
        text += f'\noutput "{snake(name)}" {{\n  value       = {value}\n  description = "{output["Description"]}"\n}}\n'
    return text


WRITTEN = {
    "leasehold/variables.tf": written_variables,
    "leasehold/parameters.tf": written_parameters,
    "leasehold/outputs.tf": written_outputs,
}


def problems(files, template):
    found = [f"{name}: is not of this template: make translate" for name, of in WRITTEN.items() if files[name] != of(template)]
    module = parsed(files, "leasehold/main.tf", "leasehold/variables.tf", "leasehold/parameters.tf", "leasehold/outputs.tf")
    root = parsed(files, "main.tf")
    variables, outputs = module["variable"], module["output"]
    found += [*described(variables, "variable"), *described(outputs, "output"), *described(root["variable"], "variable")]

    text = "".join(files[name] for name in ("leasehold/main.tf", "leasehold/parameters.tf"))
    found += [f"variable {name}: nothing uses it" for name in variables if not re.search(rf"var\.{name}\b", text)]
    found += [f"variable {name}: is not declared" for name in set(re.findall(r"var\.(\w+)", text)) - variables.keys()]
    for name in ("parameters", "concurrency"):
        if f"local.{name}" not in files["leasehold/main.tf"]:
            found.append(f"local {name}: the stack is not given it")

    call = {name for name in root["module"]["leasehold"] if not name.startswith("__")} - {"source"}
    found += [f"the example gives {name}, which is no variable of the module" for name in call - variables.keys()]
    required = {name for name, one in variables.items() if "default" not in one}
    found += [f"the example does not give {name}" for name in required - call]
    read_there = set(re.findall(r"module\.leasehold\.(\w+)", files["main.tf"]))
    found += [f"the example reads {name}, which is no output of the module" for name in read_there - outputs.keys()]
    return found


def described(blocks, kind):
    for name, block in blocks.items():
        if len(block.get("description", "").strip('"')) < 10:
            yield f"{kind} {name}: has no description"
        if kind == "variable" and "type" not in block:
            yield f"{kind} {name}: has no type"


FAULTS = [
    ("leasehold/main.tf", "local.concurrency", "{}"),
    ("leasehold/main.tf", "tags         = var.tags\n", ""),
    ("leasehold/main.tf", "var.name", "var.stack_name"),
    ("leasehold/parameters.tf", "var.queue_cap\n", "var.guard_ms\n"),
    ("leasehold/variables.tf", "<= 3600000", "<= 7200000"),
    ("leasehold/variables.tf", "default     = true", "default     = false"),
    ("leasehold/outputs.tf", '"SweepFunctionArn"', '"SweepFunction"'),
    ("leasehold/outputs.tf", 'output "lease_table_name"', 'output "lease_table"'),
    ("main.tf", "started_state_machines =", "started_machines ="),
    ("main.tf", "module.leasehold.with_lease_state_machine_arn", "module.leasehold.with_lease_arn"),
    ("main.tf", "  code_bucket = var.code_bucket\n", ""),
    ("main.tf", 'description = "Name of the S3 bucket with the files of a release."', 'description = ""'),
]


class Terraform(unittest.TestCase):
    def setUp(self):
        self.files, self.template = read(), plain("template")

    def test_module_uses_what_template_has(self):
        self.assertEqual(problems(self.files, self.template), [])

    def test_each_fault_is_noticed(self):
        for name, before, after in FAULTS:
            with self.subTest(f"{name}: {before}"):
                self.assertIn(before, self.files[name])
                self.assertNotEqual(problems({**self.files, name: self.files[name].replace(before, after)}, self.template), [])


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        for path, write in WRITTEN.items():
            (EXAMPLE / path).write_text(write(plain("template")), encoding="utf-8")
    else:
        unittest.main()
