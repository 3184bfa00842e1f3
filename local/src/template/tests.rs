//! The reader against a template that has everything in it.

use super::*;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/template.yaml")
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
        ("JOINED", "local-take"),
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
    assert_eq!((take.on_status, clean.on_status), (false, true));
    assert_eq!(clean.environment, template.environment);
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
