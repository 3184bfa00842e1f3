//! Pictures: what of a definition is seen, and that those in the documents are of the definitions as they are.

use leasehold_asl::{Options, Source, draw, pictures};
use serde_json::{Value, json};
use std::path::Path;

fn drawn(definition: &Value) -> String {
    let source = Source::new("x.asl.json", definition.to_string());
    draw(&source.read().unwrap(), &Options::default())
}

/// A machine of one section, in which `states` are put over what is there.
fn section(states: &Value) -> Value {
    let call = |function: &str, payload: Value, next: &str| {
        json!({"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "TimeoutSeconds": 10,
            "Arguments": {"FunctionName": function, "Payload": payload},
            "Assign": {"lease": "{% $states.result.Payload.lease %}"}, "Next": next})
    };
    let handle = json!({"lease": "{% $lease %}"});
    let acquire = json!({"key": "k", "holder": "h", "request_id": "r", "ttl_seconds": 60});
    let mut all = json!({
        "Before": {"Type": "Pass", "Next": "Open"},
        "Open": call("acquire", acquire, "Work"),
        "Work": {"Type": "Task", "Resource": "arn:aws:states:::dynamodb:putItem", "TimeoutSeconds": 5, "Next": "On"},
        "On": call("extend", handle.clone(), "Look"),
        "Look": {"Type": "Task", "Resource": "arn:aws:states:::dynamodb:getItem", "TimeoutSeconds": 5, "Next": "Close"},
        "Close": call("release", handle, "After"),
        "After": {"Type": "Task", "Resource": "arn:aws:states:::dynamodb:putItem", "TimeoutSeconds": 5, "End": true},
    });
    for (name, fields) in states.as_object().unwrap() {
        for (key, field) in fields.as_object().unwrap() {
            all[name][key] = field.clone();
        }
    }
    json!({"QueryLanguage": "JSONata", "StartAt": "Before", "States": all})
}

/// Each of these lines is in the picture, as a whole.
fn shows(picture: &str, lines: &[&str]) {
    for line in lines {
        let is_there = picture.lines().any(|other| other.trim() == *line);
        assert!(is_there, "no {line} in {picture}");
    }
}

#[test]
fn what_a_state_does_to_the_lease_is_its_shape_and_colour() {
    let picture = drawn(&section(&json!({})));
    let lines = [
        "flowchart TD",
        "Before[\"Before\"]",
        "Open[/\"Open\"\\]:::acquire",
        "Work[[\"Work\"]]:::protected",
        "On[/\"On\"/]:::extend",
        "Look[[\"Look\"]]:::protected",
        "Close[\\\"Close\"/]:::release",
        "After[\"After\"]",
        "0 --> Before",
        "Open --> Work",
        "After --> stop0",
    ];
    shows(&picture, &lines);
    assert_eq!(picture.matches("classDef").count(), 4, "{picture}");
}

#[test]
fn of_clauses_that_lead_to_one_state_one_line_is_made() {
    let retry = json!([{"ErrorEquals": ["Lease.Throttled"]}, {"ErrorEquals": ["Lease.Held"], "MaxAttempts": 9}]);
    let clause = |errors: &[&str], next: &str| json!({"ErrorEquals": errors, "Next": next});
    let lambda = [
        "States.Timeout",
        "Lambda.A",
        "Lambda.B",
        "Lambda.C",
        "Lambda.D",
    ];
    let definition = section(&json!({
        "Open": {"Retry": retry},
        "Work": {"Catch": [clause(&["Lease.Lost"], "Lost"), clause(&lambda, "MayRun"),
            clause(&["Lease.Expired"], "Lost"), clause(&["States.ALL"], "Close")]},
        "Look": {"Catch": [clause(&["A", "B", "C", "D"], "Lost")]},
        "Close": {"Retry": retry, "Catch": [clause(&["States.ALL"], "After")]},
        "After": {"Catch": [clause(&["A"], "Lost"), clause(&["States.ALL"], "Lost")]},
        "Before": {"Catch": [clause(&[], "Lost")]},
        "MayRun": {"Type": "Fail"},
        "Lost": {"Type": "Fail"},
    }));
    let picture = drawn(&definition);
    let lines = [
        "Open -. \"Held: asked again\" .-> Open",
        "Work -. \"Lost, Expired\" .-> Lost",
        "Work -. \"Timeout, Lambda errors\" .-> MayRun",
        "Work -. \"other errors\" .-> Close",
        "Look -. \"A, B, 2 more\" .-> Lost",
        "Close -- \"also any error\" --> After",
        "After -. \"any error\" .-> Lost",
        "MayRun([\"MayRun\"]):::failure",
        "Before -.-> Lost",
    ];
    shows(&picture, &lines);
    assert_eq!(
        picture.matches("asked again").count(),
        1,
        "of acquires alone"
    );
    assert_eq!(picture.matches("Lost, Expired").count(), 1);
}

#[test]
fn a_choice_says_what_it_goes_by() {
    let path = |rule: Value, next: &str| {
        let mut rule = rule;
        rule["Next"] = next.into();
        rule
    };
    let both = json!({"And": [{"Variable": "$.a", "IsPresent": true}, {"Not": {"Variable": "$.a", "NumericLessThanEquals": 3}}]});
    let definition = json!({"StartAt": "Which?", "States": {
        "Which?": {"Type": "Choice", "Default": "Z", "Choices": [path(both, "X"),
            path(json!({"Variable": "$.b", "StringMatches": "x*"}), "Y"),
            path(json!({"Variable": "$.b", "StringEqualsPath": "$.c"}), "Y"),
            path(json!({"Variable": "$.b", "IsNull": false}), "ZZ"),
            path(json!({"Variable": "$.d", "BooleanEquals": true}), "Z")]},
        "X": {"Type": "Choice", "QueryLanguage": "JSONata",
            "Choices": [{"Condition": format!("{{% $states.input.x < 1 and {} %}}", "'long' & ".repeat(20)), "Next": "Y"}]},
        "Y": {"Type": "Succeed"}, "Z": {"Type": "Wait", "Seconds": 1, "Next": "Y"}, "ZZ": {"Type": "Pass", "End": true},
    }});
    let picture = drawn(&definition);
    let lines = [
        "s0{\"Which?\"}",
        "s0 -- \"$.a is present and not $.a ≤ 3\" --> X",
        "s0 -- \"$.b is like 'x#42;' or $.b = $.c\" --> Y",
        "s0 -- \"$.b is not null\" --> ZZ",
        "s0 -- \"else\" --> Z",
        "X -- \"input.x #60; 1 and 'long' #38; 'long' #38; 'long' #38; 'lon…\" --> Y",
        "Z(\"Z\")",
    ];
    shows(&picture, &lines);
}

#[test]
fn what_runs_inside_is_framed() {
    let inner = |name: &str, ends: bool| {
        let mut scope = json!({"StartAt": name, "States": {name: {"Type": "Wait", "Seconds": 1}}});
        let field = if ends { "End" } else { "Next" };
        scope["States"][name][field] = if ends { true.into() } else { name.into() };
        scope
    };
    let retry = json!([{"ErrorEquals": ["X"], "MaxAttempts": 4}]);
    let catch = json!([{"ErrorEquals": ["States.ALL"], "Next": "Each"}]);
    let definition = json!({"StartAt": "Both", "States": {
        "Both": {"Type": "Parallel", "Branches": [inner("A", true), inner("A", false)], "Catch": catch, "Next": "Done"},
        "Each": {"Type": "Map", "ItemProcessor": inner("B", true), "Retry": retry, "Next": "Done"},
        "Done": {"Type": "Succeed"},
    }});
    let picture = drawn(&definition);
    let lines = [
        "subgraph Both[\"Both\"]",
        "subgraph Each[\"Each, for each item, at most 5 times\"]",
        "1 --> A",
        // Its name is taken.
        "2 --> s4",
        "A --> stop1",
        "s4 --> s4",
        "Both -. \"any error\" .-> Each",
        "Each --> Done",
    ];
    shows(&picture, &lines);
    // A branch that goes on for ever lets nothing but an error out.
    assert!(!picture.contains("Both -->"), "{picture}");
}

#[test]
fn names_mean_nothing_to_mermaid() {
    // In the order in which they are sorted, since a map may or may not keep another.
    let names = [
        "",
        "$$.a$$",
        "- `a`",
        "1. <b>\"Go\"</b>",
        "end",
        "graph #1",
        "x".repeat(90).as_str(),
        "Élan",
    ]
    .map(str::to_owned);
    let mut states = serde_json::Map::new();
    for name in &names {
        states.insert(name.clone(), json!({"Type": "Pass", "End": true}));
    }
    let picture = drawn(&json!({"StartAt": "end", "States": states}));
    let lines = [
        "s0[\" \"]",
        "s1[\"$#36;.a$#36;\"]",
        "s2[\"#45; #96;a#96;\"]",
        "s3[\"1#46; #60;b#62;#quot;Go#quot;#60;/b#62;\"]",
        "s4[\"end\"]",
        "s5[\"graph #35;1\"]",
        &format!("s6[\"{}…\"]", "x".repeat(59)),
        "s7[\"Élan\"]",
    ];
    shows(&picture, &lines);
}

#[test]
fn a_document_gets_its_pictures_anew_and_nothing_else_changes() {
    let definition = json!({"StartAt": "A", "States": {"A": {"Type": "Succeed"}}});
    let open = |path: &Path| match path.to_str() {
        Some("docs/a.asl.json") => Ok(definition.to_string()),
        _ => Err(std::io::ErrorKind::NotFound.into()),
    };
    let redrawn = |text: &str| {
        let document = Source::new("docs/A.md", text);
        pictures(&document, &Options::default(), &open)
    };
    let line = "<!-- drawn from a.asl.json -->\n```mermaid\n";
    let with = |picture: &str| {
        format!("# A\n\n```mermaid\nkept\n```\n{line}{picture}```\nMore.\n```json\n{{}}\n```\n")
    };
    let new = redrawn(&with("old\n")).unwrap();
    assert_eq!(new, with(&drawn(&definition)));
    assert_eq!(redrawn(&new).unwrap(), new);

    let told = |text: &str| redrawn(text).unwrap_err().to_string();
    assert_eq!(
        told("x\n\n<!-- drawn from a.asl.json -->\nText\n"),
        "docs/A.md:3:1: expected a block of mermaid below this"
    );
    assert_eq!(
        told(&(with("old\n") + "<!-- drawn from a.asl.json -->")),
        "docs/A.md:14:1: expected a block of mermaid below this"
    );
    assert_eq!(
        told(line),
        "docs/A.md:1:1: expected the end of its block below this"
    );
    assert!(told("<!-- drawn from b.json -->\n").contains("docs/A.md:1:1: docs/b.json: "));
    assert_eq!(
        told("# A\n"),
        "docs/A.md:1:1: expected a line <!-- drawn from FILE -->"
    );
}

#[test]
fn the_pictures_of_the_documents_are_of_the_machines_as_they_are() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(root.join("README.md")).unwrap();
    for entry in std::fs::read_dir(root.join("statemachines")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let line = format!("<!-- drawn from statemachines/{name} -->\n");
        assert!(text.contains(&line), "README.md has no picture of {name}");
    }
    let document = Source::new(root.join("README.md").to_str().unwrap(), text);
    let open = |path: &Path| std::fs::read_to_string(path);
    let new = pictures(&document, &Options::default(), &open).unwrap();
    assert!(
        new == document.text,
        "a picture in README.md is old: make pictures"
    );
}
