//! Takes the table's definition out of `template.yaml`, so that it stands nowhere else.

use std::{env, error::Error, fs, path::Path};

#[expect(
    clippy::disallowed_methods,
    reason = "a build script is told everything by its environment"
)]
fn main() -> Result<(), Box<dyn Error>> {
    // A link to the workspace's template; a packaged crate carries a copy.
    let template = Path::new("template.yaml");
    println!("cargo::rerun-if-changed={}", template.display());
    println!("cargo::rerun-if-changed=build.rs");
    let document: yaml_serde::Value = yaml_serde::from_str(&fs::read_to_string(template)?)?;
    let mut properties = document
        .get("Resources")
        .and_then(|resources| resources.get("LeaseTable"))
        .and_then(|table| table.get("Properties"))
        .and_then(yaml_serde::Value::as_mapping)
        .ok_or("template.yaml has no Resources.LeaseTable.Properties")?
        .clone();
    // What has intrinsic functions in it is the stack's business, not the table's shape.
    properties.retain(|name, _| {
        [
            "AttributeDefinitions",
            "BillingMode",
            "GlobalSecondaryIndexes",
            "KeySchema",
            "StreamSpecification",
            "TimeToLiveSpecification",
        ]
        .iter()
        .any(|kept| name.as_str() == Some(kept))
    });
    let json = serde_json::to_string(&properties)?;
    let out = Path::new(&env::var("OUT_DIR")?).join("table.json");
    Ok(fs::write(out, json)?)
}
