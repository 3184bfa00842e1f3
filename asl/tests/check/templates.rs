//! Definitions in templates and documents: their functions and their places.

use crate::found;
use leasehold_asl::{Definition, Options, Source, Unreadable, Verb, check, definitions};
use serde_json::{Value, json};
use std::path::Path;

fn read(name: &str, text: &str) -> Result<Vec<Definition>, Unreadable> {
    let open = |path: &Path| match path.to_str() {
        Some("stack/section.json") => Ok(section("${Take}", "${Give}")),
        _ => Err(std::io::Error::other("no such file")),
    };
    let found = definitions(&Source::new(name, text), &Options::default(), &open)?;
    found.into_iter().collect()
}

#[test]
fn one_missing_file_hides_no_other() {
    let open = |path: &Path| match path.to_str() {
        Some("there.json") => Ok(section("${Take}", "${Give}")),
        _ => Err(std::io::Error::other("no such file")),
    };
    let machine = |file: &str| json!({"Type": "AWS::Serverless::StateMachine", "Properties": {"DefinitionUri": file}});
    let template = json!({"Resources": {"A": machine("gone.json"), "B": machine("there.json")}});
    let source = Source::new("t.json", template.to_string());
    let found = definitions(&source, &Options::default(), &open).unwrap();
    assert!(
        found[0]
            .as_ref()
            .unwrap_err()
            .message
            .contains("no such file")
    );
    assert_eq!(found[1].as_ref().unwrap().resource.as_deref(), Some("B"));
}

#[test]
fn document_may_mix_json_and_yaml() {
    let json = section("${AcquireFunction}", "${ReleaseFunction}");
    let yaml = "StartAt: A\nStates:\n  A: {Type: Task, Resource: acquire, Next: B}\n";
    let text = format!("```json\n{json}\n```\n```yaml\nOther: 1\n```\n```yaml\n{yaml}```\n");
    let found = read("README.md", &text).unwrap();
    assert_eq!(found.len(), 2);
    let line = text
        .lines()
        .position(|line| line.contains("Next: B"))
        .unwrap()
        + 1;
    assert_eq!(
        reported(&found[1])[0],
        format!("README.md:{line} malformed A")
    );
}

/// A section without a release, which is a finding only if its functions are recognised.
fn section(take: &str, give: &str) -> String {
    format!(
        r#"{{"StartAt": "Take", "States": {{
  "Take": {{"Type": "Task", "Resource": "{take}", "Parameters": {{"key": "k", "holder": "h", "ttl_seconds": 60}}, "ResultPath": "$.held", "Next": "Again?"}},
  "Again?": {{"Type": "Choice", "Choices": [{{"Variable": "$.x", "IsNull": true, "Next": "Give"}}]}},
  "Give": {{"Type": "Task", "Resource": "{give}", "Parameters": {{"lease.$": "$.held.lease"}}, "End": true}}
}}}}"#
    )
}

fn reported(definition: &Definition) -> Vec<String> {
    let checked = check(&definition.node, &definition.options);
    let findings = checked.findings.iter();
    findings
        .map(|finding| {
            let place = definition.source.place(finding.at.start);
            format!(
                "{}:{} {} {}",
                definition.source.name,
                place.line,
                finding.rule.id(),
                finding.state
            )
        })
        .collect()
}

const FUNCTIONS: &str = "
  A: {Type: AWS::Serverless::Function, Metadata: {BuildProperties: {Binary: acquire}}}
  R: {Type: AWS::Serverless::Function, Metadata: {BuildProperties: {Binary: release}}}
  # A release of another kind.
  ReleaseFunction: {Type: AWS::Serverless::Function, Metadata: {BuildProperties: {Binary: notes}}}
  CreateReleaseFunction: {Type: AWS::Serverless::Function}
  LeaseReleaseFunction: {Type: AWS::Serverless::Function}
";

#[test]
fn binary_name_or_payload_shows_function() {
    let not_released = [
        "stack/section.json:3 no-release Again?",
        "stack/section.json:4 no-release Give",
        "stack/section.json:4 unbounded Give",
    ];
    for (give, found) in [
        ("!Ref R", &not_released[..1]),
        // This is not Leasehold's function, so nothing is released.
        ("!GetAtt ReleaseFunction.Arn", &not_released),
        // A release of another kind does not release a lease.
        ("!GetAtt CreateReleaseFunction.Arn", &not_released),
        ("!GetAtt LeaseReleaseFunction.Arn", &not_released[..1]),
    ] {
        let text = format!(
            "Resources:{FUNCTIONS}
  M:
    Type: AWS::Serverless::StateMachine
    Properties:
      DefinitionUri: section.json
      DefinitionSubstitutions: {{Take: !GetAtt A.Arn, Give: {give}}}
"
        );
        let read = read("stack/template.yaml", &text).unwrap();
        assert_eq!(read[0].resource.as_deref(), Some("M"));
        assert_eq!(check(&read[0].node, &read[0].options).acquires, 1);
        assert_eq!(reported(&read[0]), found, "{give}");
    }
}

#[test]
fn inline_definition_has_template_lines() {
    let indented = section("${A.Arn}", "${R.Arn}").replace('\n', "\n        ");
    let machine = format!(
        "  M:\n    Type: AWS::StepFunctions::StateMachine\n    Properties:\n      DefinitionString: !Sub |\n        {indented}\n"
    );
    let text = format!("Resources:{FUNCTIONS}{machine}");
    let line = 1 + text
        .lines()
        .position(|line| line.contains("\"Again?\": {"))
        .unwrap();
    let found = read("template.yaml", &text).unwrap();
    assert_eq!(
        reported(&found[0]),
        [format!("template.yaml:{line} no-release Again?")]
    );
}

#[test]
fn text_may_be_joined_from_parts() {
    let section = section("|A|", "|R|");
    let parts: Vec<Value> = section
        .split('|')
        .map(|part| match part {
            "A" | "R" => json!({"Fn::GetAtt": [part, "Arn"]}),
            text => text.into(),
        })
        .collect();
    let function = |binary: &str| json!({"Type": "AWS::Lambda::Function", "Metadata": {"BuildProperties": {"Binary": binary}}});
    let template = json!({"Resources": {
        "A": function("acquire"), "R": function("release"),
        "M": {"Type": "AWS::StepFunctions::StateMachine", "Properties": {"DefinitionString": {"Fn::Join": ["", parts]}}},
    }});
    let found = read("template.json", &template.to_string()).unwrap();
    assert_eq!(reported(&found[0]).len(), 1);
    assert!(reported(&found[0])[0].ends_with("no-release Again?"));
}

#[test]
fn the_template_says_what_is_express() {
    let text = "Resources:\n  M:\n    Type: AWS::Serverless::StateMachine\n    Properties: {Type: EXPRESS, DefinitionUri: section.json}\n";
    assert!(
        read("stack/template.yaml", text).unwrap()[0]
            .options
            .express
    );
    assert!(
        !read("stack/template.yaml", &text.replace("EXPRESS", "STANDARD")).unwrap()[0]
            .options
            .express
    );
}

#[test]
fn missing_parts_are_reported_in_place() {
    let text = "Resources:\n  M:\n    Type: AWS::Serverless::StateMachine\n    Properties:\n      DefinitionUri: nowhere.json\n";
    assert_eq!(
        read("stack/t.yaml", text).unwrap_err().to_string(),
        "stack/t.yaml:5:22: stack/nowhere.json: no such file"
    );
    let text = "Resources:\n  M:\n    Type: AWS::Serverless::StateMachine\n    Properties: {Type: STANDARD}\n";
    let error = read("t.yaml", text).unwrap_err().to_string();
    assert_eq!(
        error,
        "t.yaml:2:3: expected Definition, DefinitionString or DefinitionUri"
    );
    assert_eq!(
        read("t.yaml", "Resources: {}").unwrap_err().to_string(),
        "t.yaml: contains no state machine"
    );
}

#[test]
fn definition_in_s3_is_said() {
    for fields in [
        "DefinitionS3Location: {Bucket: b, Key: k}",
        "DefinitionUri: {Bucket: b, Key: k}",
        "DefinitionUri: s3://b/k",
    ] {
        let text = format!(
            "Resources:\n  M:\n    Type: AWS::Serverless::StateMachine\n    Properties:\n      {fields}\n"
        );
        let found = read("t.yaml", &text).unwrap_err().to_string();
        let wanted = "its definition is in S3, and is not read: check the file that is put there";
        assert!(
            found.starts_with("t.yaml:5:") && found.ends_with(wanted),
            "{found}"
        );
    }
}

/// YAML wants it to be indented, and what deploys templates does not.
#[test]
fn quoted_text_may_go_on_at_its_key() {
    let machine = section("${AcquireFunction}", "${ReleaseFunction}");
    let text = format!(
        "Resources:\n  M:\n    Type: AWS::StepFunctions::StateMachine\n    Properties:\n      DefinitionString: '{}'\nOutputs:\n  Sample:\n    Value: \"{{ # no comment\n    \\\"order\\\": 1\n    }}\"\n",
        machine.replace('\n', "\n      ")
    );
    let found = read("t.yaml", &text).unwrap();
    assert_eq!(reported(&found[0]), ["t.yaml:6 no-release Again?"]);
    let broken = text.replace("# no comment", "\\");
    assert_eq!(
        read("t.yaml", &broken).unwrap_err().to_string(),
        "t.yaml:12:12: in braces, brackets or quotes, this line stands no deeper than the key around them: indent it"
    );
}

#[test]
fn block_findings_have_document_lines() {
    let text = format!(
        "# Title\n\n```json\n{{\"a\": 1}}\n```\n\n```json\n{}\n```\n",
        section("${AcquireFunction}", "${ReleaseFunction}")
    );
    let found = read("README.md", &text).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(reported(&found[0]), ["README.md:10 no-release Again?"]);
}

#[test]
fn given_name_overrides_template() {
    let mut options = Options::default();
    options
        .names
        .insert("Again".to_owned(), Some(Verb::Acquire));
    let source = Source::new("x.json", section("${Again}", "${ReleaseFunction}"));
    let found = definitions(&source, &options, &|_| Err(std::io::Error::other("none"))).unwrap();
    let found = found[0].as_ref().unwrap();
    assert_eq!(reported(found), ["x.json:3 no-release Again?"]);
}

/// A loop that calls a function until a publication exists. The function's name ends like one of Leasehold's.
fn published(function: &str, payload: Option<(&str, Value)>) -> Vec<String> {
    let mut definition = json!({"StartAt": "Publish", "States": {
        "Publish": {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "Parameters": {"FunctionName": function}, "Next": "Done?"},
        "Done?": {"Type": "Choice", "Choices": [{"Variable": "$.done", "BooleanEquals": true, "Next": "Done"}], "Default": "Later"},
        "Later": {"Type": "Wait", "Seconds": 5, "Next": "Publish"},
        "Done": {"Type": "Succeed"},
    }});
    if let Some((key, value)) = payload {
        definition["States"]["Publish"]["Parameters"][key] = value;
    }
    found(&definition)
}

#[test]
fn similarly_named_function_is_not_ours() {
    let all = || Some(("Payload.$", json!("$")));
    for function in [
        "${CreateReleaseFunction}",
        "press-release",
        "data-acquire",
        "${TrialExtendFunction.Arn}",
    ] {
        assert_eq!(published(function, all()), [""; 0], "{function}");
        assert_eq!(published(function, None), [""; 0], "{function}");
    }
    let object = || Some(("Payload", json!({"bucket.$": "$.bucket", "key.$": "$.key"})));
    assert_eq!(published("data-acquire", object()), [""; 0]);
    // By the name alone, and by the payload.
    let loops = "too-many-events Publish";
    assert_eq!(published("${ReleaseFunction}", all()), [loops]);
    assert_eq!(published("my-leases-extend", all()), [loops]);
    let handle = Some(("Payload", json!({"lease.$": "$.lease"})));
    assert_eq!(published("${CreateReleaseFunction}", handle), [loops]);
    let request = json!({"key": "k", "holder.$": "$$.Execution.Id", "ttl_seconds": 60});
    assert!(published("data-acquire", Some(("Payload", request))).len() > 1);
}

/// As CDK 2 writes them: the output of a nested stack, and from another stack the export of that output.
#[test]
fn cdk_references_lead_to_functions() {
    let nested = "LocksStackNestedStackStackNestedStackResourceDCE4C9F0";
    let in_the_stack =
        |verb: &str| json!({"Fn::GetAtt": [nested, format!("Outputs.{verb}FunctionArn")]});
    let in_another = |verb: &str| {
        let export = format!("Shop:ExportsOutputFnGetAtt{nested}Outputs{verb}FunctionArnE4083C52");
        json!({"Fn::ImportValue": export})
    };
    let functions: [&dyn Fn(&str) -> Value; 2] = [&in_the_stack, &in_another];
    for function in functions {
        let parts = json!([
            r#"{"StartAt":"Take","QueryLanguage":"JSONata","States":{"Take":{"Type":"Task","Next":"Give","Resource":"arn:"#,
            {"Ref": "AWS::Partition"},
            r#":states:::lambda:invoke","Arguments":{"FunctionName":""#,
            function("Acquire"),
            r#"","Payload":{"key":"k","holder":"h","ttl_seconds":60}},"Assign":{"lease":"{% $states.result.Payload.lease %}"}},"#,
            r#""Give":{"Type":"Task","End":true,"Resource":"arn:aws:states:::lambda:invoke","Arguments":{"FunctionName":""#,
            function("Release"),
            r#"","Payload":{"lease":"{% $lease %}"}}}}}"#,
        ]);
        let string = json!({"Fn::Join": ["", parts]});
        let machine = json!({"Type": "AWS::StepFunctions::StateMachine", "Properties": {"DefinitionString": string}});
        let text = json!({"Resources": {"Section51666D1A": machine}}).to_string();
        let read = read("Other.template.json", &text).unwrap();
        let checked = check(&read[0].node, &read[0].options);
        assert_eq!((checked.acquires, checked.calls), (1, 2), "{text}");
    }
}
