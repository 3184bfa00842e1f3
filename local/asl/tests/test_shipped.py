"""Every Fail state that is shipped or woven ends with a name and a text, also after an answer that gave neither."""

import re
import unittest
from pathlib import Path

import fixture
import yaml

ROOT = Path(__file__).resolve().parent.parent.parent.parent

setUpModule, tearDownModule = fixture.begin, fixture.end


def definitions():
    for pattern in ("templates/statemachines/*.json", "examples/**/*.asl.json", "asl/corpus/weave/*.woven.*"):
        for path in sorted(ROOT.glob(pattern)):
            yield path.name, yaml.safe_load(path.read_text(encoding="utf-8"))


def fails(node):
    """Every Fail state with an expression, by its name."""
    if isinstance(node, list):
        node = dict(enumerate(node))
    if not isinstance(node, dict):
        return
    for name, inner in node.items():
        if isinstance(inner, dict) and inner.get("Type") == "Fail" and "{%" in str(inner):
            yield name, inner
        yield from fails(inner)


class Unnamed(unittest.TestCase):
    def test_a_failure_without_a_name(self):
        tried = 0
        for where, definition in definitions():
            for name, state in fails(definition):
                said = f"{state.get('Error')} {state.get('Cause')}"
                names = set(re.findall(r"\$(\w*failure)\b", said))
                # Those to which only an error of ours leads have its name and its cause.
                if not names or "Lost" in name or name == "StillHeld":
                    continue
                tried += 1
                unnamed = {name: {"Error": None, "Cause": None} for name in names}
                begin = {"Type": "Pass", "Assign": unnamed, "Output": {"Error": None, "Cause": None}, "Next": "Failed"}
                failed = fixture.run({"Begin": begin, "Failed": {**state, "QueryLanguage": "JSONata"}})
                self.assertRegex(failed.get("error", ""), r"^(Lease|Step|Transfer)[.]\w+$", f"{where} {name}: {failed}")
        self.assertGreater(tried, 20)


if __name__ == "__main__":
    unittest.main()
