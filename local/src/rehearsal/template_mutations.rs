//! A right that is missing from the template, which the rehearsal has to find.

use std::path::Path;

use leasehold_local::{Error, Options, Stack};

use super::fixture::Fixture;
use super::{options, scenarios};

/// What acquire needs for permits.
const ACTION: &str = "dynamodb:Query";

/// Takes the right from the role of acquire, and says so if nothing is refused for that.
pub(super) async fn seeded(template: &Path, out: &Path) -> Result<Option<String>, Error> {
    let failed = |message: String| Error::Call {
        what: format!("change {}", template.display()),
        message,
    };
    let text = std::fs::read_to_string(template).map_err(|error| failed(error.to_string()))?;
    let mut changed: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
    let actions = "/Resources/AcquireRole/Properties/Policies/0/PolicyDocument/Statement/0/Action";
    let actions = changed
        .pointer_mut(actions)
        .and_then(|of| of.as_array_mut());
    let actions = actions.ok_or_else(|| failed("AcquireRole has no actions".to_owned()))?;
    actions.retain(|action| action != ACTION);
    let out = out.join("fault");
    let file = out.join("template.json");
    std::fs::create_dir_all(&out)
        .and_then(|()| std::fs::write(&file, changed.to_string()))
        .map_err(|error| failed(error.to_string()))?;
    let stack = Stack::start(Options {
        engine: false,
        ..options(&file, &out)
    })
    .await?;
    let shown = scenarios::by_a_person(&Fixture::functions(&stack).await?).await;
    let refused = stack.roles().refused();
    stack.stop().await;
    let expected = format!("not authorized to perform: {ACTION}");
    let found = shown.is_err() && refused.iter().any(|refused| refused.contains(&expected));
    Ok((!found).then(|| {
        format!("a role of acquire without {ACTION} is not found: {shown:?}, refused {refused:?}")
    }))
}
