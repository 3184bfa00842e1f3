//! The reader against a template that has everything in it.

use std::path::PathBuf;

use super::*;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../proof/tests/fixtures/template.yaml")
}

fn read(parameters: &[(&str, &str)]) -> Result<Template, Error> {
    let given = parameters
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    Template::read(
        &fixture(),
        &given,
        &BTreeMap::from([("NotThere".to_owned(), String::new())]),
    )
}

fn function<'a>(template: &'a Template, id: &str) -> &'a FunctionResource {
    template
        .functions
        .iter()
        .find(|function| function.logical_id == id)
        .unwrap()
}

#[test]
fn a_function_has_the_shared_settings_and_its_own() {
    let template = read(&[]).unwrap();
    let take = function(&template, "TakeFunction");
    assert_eq!(take.verb, "take");
    assert_eq!(take.timeout, Duration::from_secs(7));
    assert_eq!(take.memory_mb, 256);
    assert_eq!(take.every, None);
    let expected = [
        (
            "INDEX",
            "arn:aws:dynamodb:us-east-1:123456789012:table/Rows/index/held",
        ),
        ("JOINED", "leasehold-take"),
        (
            "LONG",
            "arn:aws:lambda:us-east-1:123456789012:function:CleanFunction",
        ),
        ("MARGIN", "2000"),
        ("NAMED", "TakeFunction in us-east-1 ${Kept}"),
        ("SHARED", "own"),
        ("TABLE", "Rows"),
        (
            "TABLE_ARN",
            "arn:aws:dynamodb:us-east-1:123456789012:table/Rows",
        ),
    ];
    let environment: Vec<_> = take
        .environment
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    assert_eq!(environment, expected);

    let clean = function(&template, "CleanFunction");
    assert_eq!(clean.timeout, Duration::from_secs(10));
    assert_eq!(clean.every, Some(Duration::from_mins(5)));
    assert_eq!(clean.environment, template.environment);
}

#[test]
fn what_happens_by_itself_is_read_with_its_ends() {
    let template = read(&[]).unwrap();
    let targets: Vec<_> = template
        .rules
        .iter()
        .map(|rule| &rule.targets[..])
        .collect();
    let clean = || Target::Function("CleanFunction".to_owned());
    let later = Target::Queue("LaterQueue".to_owned());
    // In the order of the logical ids.
    assert_eq!(targets, [&[clean()][..], &[clean(), later]]);
    let event = |status| serde_json::json!({"source": "aws.states", "detail": {"status": status}});
    let pattern = template.rules[1].pattern.as_ref().unwrap();
    assert!(pattern.matches(&event("FAILED")));
    assert!(!pattern.matches(&event("RUNNING")));

    let later = QueueResource {
        logical_id: "LaterQueue".to_owned(),
        delay: Duration::from_mins(1),
        visibility: Duration::from_secs(90),
        redrive: Some(("DeadQueue".to_owned(), 3)),
    };
    assert!(template.queues.contains(&later), "{:?}", template.queues);
    let [source] = &template.queue_sources[..] else {
        panic!("{:?}", template.queue_sources);
    };
    assert_eq!(
        (&*source.function, &*source.queue),
        ("CleanFunction", "LaterQueue")
    );
    assert_eq!((source.batch_size, source.partial), (10, true));

    let [stream] = &template.streams[..] else {
        panic!("{:?}", template.streams);
    };
    assert_eq!(
        (&*stream.function, &*stream.table),
        ("TakeFunction", "Rows")
    );
    assert_eq!((stream.batch_size, stream.lanes), (7, 2));
    assert_eq!((stream.bisect, stream.partial), (true, true));
    assert_eq!(stream.retries, Some(5));
    assert_eq!(stream.record_age, Some(Duration::from_hours(1)));
    assert_eq!(stream.dead_letters.as_deref(), Some("DeadQueue"));
    assert_eq!(stream.filters.len(), 1);
}

#[test]
fn parameters_decide_what_exists() {
    let template = read(&[]).unwrap();
    let ids: Vec<_> = template
        .state_machines
        .iter()
        .map(|machine| machine.logical_id.as_str())
        .collect();
    assert_eq!(ids, ["WrapStateMachine"]);

    let template = read(&[("StepArn", "arn:step"), ("Margin", "5")]).unwrap();
    let ids: Vec<_> = template
        .state_machines
        .iter()
        .map(|machine| machine.logical_id.as_str())
        .collect();
    assert_eq!(ids, ["SampleStateMachine", "WrapStateMachine"]);
    assert!(
        template.state_machines[0]
            .definition()
            .unwrap()
            .contains(r#""Resource": "arn:step""#)
    );
    let take = function(&template, "TakeFunction");
    assert_eq!(take.environment["MARGIN"], "5");
    assert_eq!(take.environment["STEP"], "arn:step");
}

#[test]
fn substitutions_are_local_arns() {
    let template = read(&[]).unwrap();
    let definition: Value =
        serde_json::from_str(&template.state_machines[0].definition().unwrap()).unwrap();
    let take = &definition["States"]["Take"];
    assert_eq!(
        take["Resource"],
        "arn:aws:lambda:us-east-1:123456789012:function:TakeFunction"
    );
    assert_eq!(
        take["Comment"],
        "arn:aws:states:us-east-1:123456789012:stateMachine:SampleStateMachine"
    );
}

#[test]
fn what_is_wrong_is_named_with_file_and_resource() {
    let unknown = read(&[("Nobody", "1")]).unwrap_err().to_string();
    assert!(
        unknown.ends_with("template.yaml: there is no parameter Nobody"),
        "{unknown}"
    );

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("template.yaml");
    let cases = [
        (
            "{F: {Type: AWS::Serverless::Function}}",
            "F: has no CodeUri",
        ),
        (
            "{F: {Type: AWS::Serverless::Function, Properties: {CodeUri: a, Timeout: !Ref X}}}",
            "F: Ref X: no such parameter or resource",
        ),
        (
            "{M: {Type: AWS::Serverless::StateMachine}}",
            "M: has no DefinitionUri",
        ),
        (
            "{F: {Type: AWS::Serverless::Function, Properties: {CodeUri: a, Events: {E: {Type: SNS}}}}}",
            "F: E: events of type SNS are not delivered locally",
        ),
        (
            "{F: {Type: AWS::Serverless::Function, Properties: {CodeUri: a, Events: {E: {Type: EventBridgeRule, \
              Properties: {Pattern: {a: [{cidr: 10.0.0.0/8}]}}}}}}}",
            "F: E: .a: {\"cidr\":\"10.0.0.0/8\"} is not understood locally",
        ),
        (
            "{F: {Type: AWS::Serverless::Function, Properties: {CodeUri: a, Events: {E: {Type: SQS, \
              Properties: {Queue: 'arn:aws:sqs:r:1:Q', FilterCriteria: {}}}}}}}",
            "F: E: FilterCriteria is not understood locally",
        ),
        (
            "{F: {Type: AWS::Serverless::Function, Properties: {CodeUri: a, Events: {E: {Type: SQS, \
              Properties: {Queue: 'arn:aws:sqs:r:1:Q'}}}}}}",
            "messages go to Q, which is no queue",
        ),
        (
            "{R: {Type: AWS::Events::Rule, Properties: {EventPattern: {a: [b]}, \
              Targets: [{Id: f, Arn: 'arn:aws:lambda:r:1:function:F'}]}}}",
            "a rule leads to F, which is no function",
        ),
    ];
    for (resources, expected) in cases {
        std::fs::write(&file, format!("Resources: {resources}")).unwrap();
        let error = Template::read(&file, &BTreeMap::new(), &BTreeMap::new())
            .unwrap_err()
            .to_string();
        assert!(error.ends_with(expected), "{error}");
    }

    let machine = "{M: {Type: AWS::Serverless::StateMachine, Properties: {DefinitionUri: m.json}}}";
    std::fs::write(&file, format!("Resources: {machine}")).unwrap();
    let template = Template::read(&file, &BTreeMap::new(), &BTreeMap::new()).unwrap();
    let definition = || {
        template.state_machines[0]
            .definition()
            .unwrap_err()
            .to_string()
    };
    assert!(
        definition().contains("m.json: No such file"),
        "{}",
        definition()
    );
    std::fs::write(
        directory.path().join("m.json"),
        r#"{"Resource": "${Function}"}"#,
    )
    .unwrap();
    let expected = "m.json: wants ${Function}, which DefinitionSubstitutions of M does not have";
    assert!(definition().ends_with(expected), "{}", definition());
}
