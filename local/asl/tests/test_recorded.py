"""The engine beside recordings of the service: one test for each recorded fact on which Leasehold stands.

    python -m unittest discover -s local/asl/tests       # by the engine's own Python, target/asl-venv

docs/explain/aws.md lists the facts and who recorded them. Where a fact is not recorded, the test's comment says what is.
"""

import json
import unittest

import fixture
from botocore.exceptions import ClientError
from fixture import (
    ALL_TO_CAUGHT,
    END,
    FUNCTION,
    INVOKE,
    ROLE,
    ended,
    history,
    inline_map,
    kinds,
    machine,
    output,
    parallel,
    run,
    start,
    task,
    the,
    token,
    waits,
)

setUpModule, tearDownModule = fixture.begin, fixture.end


class Refused(unittest.TestCase):
    def code(self, call, **arguments):
        with self.assertRaises(ClientError) as refused:
            call(**arguments)
        return refused.exception.response["Error"]

    def test_invalid_input_has_a_code(self):
        arn = machine({"A": END})
        for text in ("not json", "{'a': 1}", ""):
            error = self.code(fixture.client.start_execution, stateMachineArn=arn, input=text)
            self.assertEqual(error["Code"], "InvalidExecutionInput", text)
        for text in ("1", '"a"', "null"):
            fixture.client.start_execution(stateMachineArn=arn, input=text)

    def test_bad_definition_has_code(self):
        dangling = json.dumps({"StartAt": "A", "States": {"A": {"Type": "Pass", "Next": "B"}}})
        for definition in ("not json", dangling):
            error = self.code(fixture.client.create_state_machine, name="bad", definition=definition, roleArn=ROLE)
            self.assertEqual(error["Code"], "InvalidDefinition")

    def test_a_token_is_judged_first(self):
        error = self.code(fixture.client.send_task_success, taskToken="none", output="not json")
        self.assertEqual(error["Code"], "InvalidToken")
        execution = start({"A": waits()})
        said = token(execution)
        self.assertEqual(self.code(fixture.client.send_task_success, taskToken=said, output="not json")["Code"], "InvalidOutput")
        fixture.client.send_task_success(taskToken=said, output="1")
        self.assertEqual(ended(execution)["output"], "1")
        # Each event of the task follows the one before it.
        found = kinds(execution)
        self.assertEqual(found[2:6], ["TaskScheduled", "TaskStarted", "TaskSubmitted", "TaskSucceeded"])
        self.assertEqual([event["previousEventId"] for event in history(execution)[2:6]], [2, 3, 4, 5])

    def test_machine_names_are_unique(self):
        definition = json.dumps({"StartAt": "A", "States": {"A": END}})
        other = json.dumps({"StartAt": "B", "States": {"B": END}})
        create = {"name": "twice", "definition": definition, "roleArn": ROLE}
        arn = fixture.client.create_state_machine(**create)["stateMachineArn"]
        self.assertEqual(fixture.client.create_state_machine(**create)["stateMachineArn"], arn)
        error = self.code(fixture.client.create_state_machine, **create | {"definition": other})
        self.assertEqual(error["Code"], "StateMachineAlreadyExists")
        self.assertIn(arn, error["Message"])
        # Recorded: the same definition in another layout is another one.
        error = self.code(fixture.client.create_state_machine, **create | {"definition": json.dumps(json.loads(definition), indent=1)})
        self.assertEqual(error["Code"], "StateMachineAlreadyExists")

    def test_a_success_is_not_redrivable(self):
        described = run({"A": END})
        self.assertEqual((described["redriveCount"], described["redriveStatus"]), (0, "NOT_REDRIVABLE"))
        self.assertEqual(described["redriveStatusReason"], "Execution is SUCCEEDED and cannot be redriven")


class Errors(unittest.TestCase):
    def failed_by_token(self, states):
        execution = start(states)
        fixture.client.send_task_failure(taskToken=token(execution))
        return execution

    def test_an_unnamed_failure_is_null(self):
        caught = {"Caught": {**END, "Output": "{% $states.input %}"}}
        for state in (
            waits(Catch=[{**ALL_TO_CAUGHT[0], "Output": "{% $states.errorOutput %}"}]),
            parallel({"B": waits()}, Catch=[{**ALL_TO_CAUGHT[0], "Output": "{% $states.errorOutput %}"}]),
        ):
            execution = self.failed_by_token({"A": state, **caught})
            self.assertEqual(json.loads(ended(execution)["output"]), {"Error": None, "Cause": None})
            self.assertEqual(the("TaskFailed", execution), {"resource": "invoke.waitForTaskToken", "resourceType": "lambda"})

    def test_time_out_has_empty_cause(self):
        state = task("slow", TimeoutSeconds=1, Catch=[{**ALL_TO_CAUGHT[0], "Output": "{% $states.errorOutput %}"}])
        self.assertEqual(output({"A": state, "Caught": END}), {"Error": "States.Timeout", "Cause": ""})

    def test_all_catches_a_large_result(self):
        by_arn = {"Type": "Task", "Resource": FUNCTION + "large", "End": True}
        for state in (task("large"), by_arn):
            for name in ("States.ALL", "States.DataLimitExceeded"):
                caught = [{"ErrorEquals": [name], "Next": "Caught", "Output": "{% $states.errorOutput.Error %}"}]
                self.assertEqual(output({"A": {**state, "Catch": caught}, "Caught": END}), "States.DataLimitExceeded", name)

    def test_nothing_catches_a_runtime_error(self):
        state = {"Type": "Task", "Resource": INVOKE, "Parameters": {"FunctionName.$": "$.nothing"}, "End": True, "Catch": ALL_TO_CAUGHT}
        self.assertEqual(run({"A": state, "Caught": END}, jsonata=False)["error"], "States.Runtime")

    def test_empty_fail_fails_map(self):
        # Recorded with a Catch of other names; a Catch of States.ALL is not.
        for rule, status in (("Other", "FAILED"), ("States.ALL", "SUCCEEDED")):
            catch = [{"ErrorEquals": [rule], "Next": "Caught"}]
            for state in (inline_map({"B": {"Type": "Fail"}}, Catch=catch), parallel({"B": {"Type": "Fail"}}, Catch=catch)):
                execution = start({"A": state, "Caught": END})
                self.assertEqual(ended(execution)["status"], status)
                if status == "FAILED":
                    self.assertEqual(the("ExecutionFailed", execution), {})

    def test_failed_call_is_no_answer(self):
        for function, error in (("broken", "Lambda.SdkClientException"), ("busy", "Lambda.TooManyRequestsException")):
            by_arn = {"Type": "Task", "Resource": FUNCTION + function, "End": True}
            for state in (task(function), by_arn):
                self.assertEqual(run({"A": state})["error"], error)


class Expressions(unittest.TestCase):
    def failure(self, states, given="{}"):
        """The details of EvaluationFailed, which comes once."""
        execution = start(states, given)
        end = ended(execution)
        self.assertEqual(end["error"], "States.QueryEvaluationError", end)
        found = the("EvaluationFailed", execution)
        self.assertEqual(found["cause"], end["cause"])
        return found

    def test_a_failure_says_where(self):
        nothing = "{% $nothing %}"
        invoke = {"Type": "Task", "Resource": INVOKE, "End": True}
        for state, place, entered in (
            ({**END, "Output": nothing}, "Output", 2),
            ({**END, "Output": {"result": nothing}}, "Output/result", 2),
            ({**END, "Assign": {"result": nothing}}, "Assign/result", 2),
            ({**invoke, "Arguments": nothing}, "Arguments", 2),
            ({**invoke, "Arguments": {"FunctionName": nothing}}, "Arguments/FunctionName", 2),
        ):
            found = self.failure({"A": state})
            self.assertEqual(found["location"], place)
            self.assertEqual(found["state"], "A")
            self.assertEqual(
                found["cause"],
                f"An error occurred while executing the state 'A' (entered at the event id #{entered}). "
                f"The JSONata expression '$nothing' specified for the field '{place}' returned nothing (undefined).",
            )

    def test_a_thrown_error_says_where(self):
        found = self.failure({"A": {**END, "Output": {"b": "{% $none(1) %}"}}})
        begin = "The JSONata expression '$none(1)' specified for the field 'Output/b' threw an error during evaluation. "
        self.assertIn(begin, found["cause"])
        self.assertFalse(found["cause"].endswith("."), found["cause"])

    def test_an_item_list_is_judged(self):
        for value, what in (('"a"', "string"), ("1", "number"), ("null", "null"), ("true", "boolean"), ('{"a":1}', "object")):
            found = self.failure({"A": inline_map({"B": END}, Items="{% $states.input %}")}, value)
            self.assertEqual(found["location"], "Items")
            self.assertIn(
                f"The JSONata expression '$states.input' specified for the field 'Items' returned an unexpected result type. "
                f"Expected 'array', but was '{what}' for value: {value}",
                found["cause"],
            )

    def test_bad_instant_can_be_caught(self):
        for text in ("2016-13-05T21:29:29Z", "2016-12-05 21:29:29Z", "2016-12-05T21:29:29"):
            state = {"Type": "Wait", "Timestamp": "{% $states.input %}", "End": True}
            found = self.failure({"A": state}, json.dumps(text))
            self.assertEqual((found["location"], found["state"]), ("Timestamp", "A"))
            said = f"The Timestamp field cannot be parsed as an ISO-8601 extended offset date-time format string: {text}"
            self.assertIn(said, found["cause"])

    def test_assigned_texts_are_json(self):
        text = 'a "b" \\ \n ü'
        for assigned, jsonata in ((text, True), (text, False)):
            states = {"A": {"Type": "Pass", "Assign": {"x": assigned, "y": [assigned], "z": {"k": assigned}}, "Next": "B"}}
            if jsonata:
                states["B"] = {**END, "Output": "{% [$x, $y[0], $z.k] %}"}
            else:
                states["B"] = {**END, "Parameters": {"x.$": "$x", "y.$": "$y[0]", "z.$": "$z.k"}}
            found = output(states, jsonata=jsonata)
            self.assertEqual(found if jsonata else list(found.values()), [text] * 3)


class Items(unittest.TestCase):
    def test_a_selector_has_the_item(self):
        selector = {"index": "{% $states.context.Map.Item.Index %}", "value": "{% $states.context.Map.Item.Value %}"}
        expected = [{"index": 0, "value": 1}, {"index": 1, "value": 2}]
        self.assertEqual(output({"A": inline_map({"B": END}, ItemSelector=selector)}), expected)

    # The service documents an item's data for ItemSelector, and tells to take them there and not in the states of an item. Others
    # report that those do not have them. An expression without them would be an empty text.
    def test_items_states_lack_item_data(self):
        index = "{% 'i' & $states.context.Map.Item.Index %}"
        for inner in (
            {"B": {**END, "Output": index}},
            {"B": {**task("echo"), "Arguments": {"FunctionName": FUNCTION + "echo", "Payload": {"i": index}}}},
            {"B": {"Type": "Choice", "Choices": [{"Condition": "{% $states.context.Map.Item.Index = 0 %}", "Next": "C"}], "Default": "C"}, "C": END},
            {"B": parallel({"C": {**END, "Output": index}})},
            {"B": {**END, "Output": "{% $lookup($states.context, 'Map').Item.Index %}"}},
        ):
            for mode in ("INLINE", "DISTRIBUTED"):
                state = inline_map(inner)
                state["ItemProcessor"]["ProcessorConfig"] = {"Mode": mode} if mode == "INLINE" else {"Mode": mode, "ExecutionType": "STANDARD"}
                end = run({"A": state})
                if mode == "INLINE":
                    self.assertEqual(end["error"], "States.QueryEvaluationError", inner)
                else:
                    self.assertNotIn("i0", end.get("output", ""))

    def test_path_finds_no_item_data(self):
        inner = {"B": {**END, "Parameters": {"i.$": "$$.Map.Item.Index"}}}
        state = inline_map(inner)
        del state["Items"]
        self.assertEqual(run({"A": state}, "[1]", jsonata=False)["error"], "States.Runtime")

    def test_inner_selector_has_own_item(self):
        selector = {"i": "{% $states.context.Map.Item.Index %}"}
        outer = {"i": "{% $states.context.Map.Item.Value %}"}
        inner = inline_map({"C": END}, ItemSelector=selector)
        found = output({"A": inline_map({"B": inner}, Items=[7], ItemSelector=outer)})
        self.assertEqual(found, [[{"i": 0}, {"i": 1}]])


class Aborts(unittest.TestCase):
    def test_failing_branch_aborts_its_task(self):
        execution = start({"A": parallel({"B": waits(Catch=[])}, Catch=ALL_TO_CAUGHT), "Caught": END})
        fixture.client.send_task_failure(taskToken=token(execution))
        ended(execution)
        events = history(execution)
        at = kinds(execution).index("TaskFailed")
        self.assertEqual(kinds(execution)[at : at + 3], ["TaskFailed", "TaskStateAborted", "ParallelStateFailed"])
        self.assertEqual([event["previousEventId"] for event in events[at + 1 : at + 3]], [events[at]["id"]] * 2)

    def test_failing_branch_aborts_others(self):
        fails = {"B": {"Type": "Fail", "Error": "E"}}
        execution = start({"A": parallel({"W": {"Type": "Wait", "Seconds": 60, "End": True}}, {"T": waits()}, {"S": {"Type": "Wait", "Seconds": 1, "Next": "B"}, **fails})})
        ended(execution)
        aborted = [kind for kind in kinds(execution) if kind.endswith("Aborted")]
        self.assertEqual(sorted(aborted), ["TaskStateAborted", "WaitStateAborted"])

    def test_failing_item_aborts_others(self):
        # The first times out, and no other before it: also on a machine that is late.
        items = {"B": task("slow", TimeoutSeconds="{% $states.input = 1 ? 1 : 30 %}")}
        execution = start({"A": inline_map(items, Items=[1, 2, 3])})
        ended(execution)
        found = kinds(execution)
        self.assertEqual(found.count("MapIterationFailed"), 1, found)
        self.assertEqual(found.count("MapIterationAborted"), 2, found)
        self.assertEqual(found.count("TaskStateAborted"), 3, found)
        self.assertEqual(found[-2:], ["MapStateFailed", "ExecutionFailed"])


class Children(unittest.TestCase):
    def test_token_answers_sync_task(self):
        child = machine({"W": {"Type": "Wait", "Seconds": 60, "End": True}})
        for suffix in ("sync", "sync:2"):
            state = {
                "Type": "Task",
                "Resource": f"arn:aws:states:::states:startExecution.{suffix}",
                "Arguments": {"StateMachineArn": child, "Input": {"token": "{% $states.context.Task.Token %}"}},
                "End": True,
            }
            execution = start({"A": state})
            fixture.client.send_task_success(taskToken=token(execution), output='"early"')
            self.assertEqual(ended(execution).get("output"), '"early"')
            found = kinds(execution)
            self.assertEqual(found[2:6], ["TaskScheduled", "TaskStarted", "TaskSubmitted", "TaskSucceeded"])


if __name__ == "__main__":
    unittest.main()
