//! One event, on this machine and in the place of Lambda: both answers have to be the same, and what the contract says.

use std::fmt::Write;

use leasehold_local::StepFunctionsCall;
use leasehold_local::scenes::{Scene, Stage, masked};

use crate::container::Container;
use crate::emulator::Emulator;
use crate::error::Error;

/// Who runs a function in Lambda's place.
pub(crate) enum Host {
    Container(Box<Container>),
    Emulator(Emulator),
}

impl Host {
    /// The word for it in the last line.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Container(_) => "container",
            Self::Emulator(_) => "emulator",
        }
    }

    async fn invoke(&self, scene: &Scene, stage: &mut Stage) -> Result<String, Error> {
        match self {
            Self::Container(container) => container.invoke(scene, stage).await,
            Self::Emulator(emulator) => emulator.invoke(stage).await,
        }
    }
}

/// What is other than expected, in words; nothing if all is as it should be.
pub(crate) type Verdict = Option<String>;

/// Sets the scene twice, and compares what comes of it.
pub(crate) async fn play(host: &Host, scene: &Scene) -> Result<Verdict, Error> {
    let here = scene.set().await?;
    let (answer, told) = (here.invoke().await?, here.told());
    let mut there = scene.set().await?;
    let other_answer = host.invoke(scene, &mut there).await?;
    let other_told = there.told();
    let event = here.payload().to_owned();
    here.stop().await;
    there.stop().await;
    Ok(compare(
        scene,
        &event,
        (&answer, &told),
        (&other_answer, &other_told),
        host.name(),
    ))
}

fn compare(
    scene: &Scene,
    event: &str,
    here: (&str, &[StepFunctionsCall]),
    there: (&str, &[StepFunctionsCall]),
    host: &str,
) -> Verdict {
    let mut verdict = String::new();
    for (place, (answer, told)) in [("on this machine", here), (host, there)] {
        if let Some(misfit) = scene.judge(answer, told) {
            let _ = writeln!(verdict, "by the contract, {place}: {misfit}");
        }
    }
    // Byte by byte, ids and times aside; also what Step Functions was told.
    let texts = |(answer, told): (&str, &[StepFunctionsCall])| {
        let told = told
            .iter()
            .map(|told| format!("{} {}", told.operation, told.body));
        std::iter::once(answer.to_owned())
            .chain(told)
            .map(|text| masked(&compact(&text), event))
            .collect::<Vec<_>>()
    };
    let (here, there) = (texts(here), texts(there));
    if here != there {
        let _ = writeln!(verdict, "the answers differ:");
        for (place, texts) in [("on this machine", here), (host, there)] {
            let _ = writeln!(verdict, "  {place}: {}", texts.join("\n    told "));
        }
    }
    (!verdict.is_empty()).then_some(verdict)
}

/// SAM writes an answer anew, with a space after each comma and colon, which are nobody's; those in texts stay.
fn compact(json: &str) -> String {
    let (mut is_text, mut is_escaped) = (false, false);
    let kept = json.chars().filter(|c| {
        let is_space = !is_text && *c == ' ';
        is_text ^= *c == '"' && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        !is_space
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use leasehold_local::scenes;

    use super::*;

    fn verdict(here: &str, there: &str) -> Verdict {
        let scenes = scenes::all().unwrap();
        let scene = scenes.iter().find(|scene| scene.event == "operate-freeze");
        compare(scene.unwrap(), "{}", (here, &[]), (there, &[]), "container")
    }

    #[test]
    fn equal_answers_that_the_contract_has_are_as_expected() {
        let answer = r#"{"outcome":"frozen"}"#;
        assert_eq!(verdict(answer, answer), None);
    }

    #[test]
    fn a_field_by_another_name_is_found_by_the_contract_and_by_the_comparison() {
        let (answer, other) = (r#"{"outcome":"frozen"}"#, r#"{"result":"frozen"}"#);
        let told = verdict(answer, other).unwrap();
        assert!(
            told.contains("by the contract, container: .outcome: is missing"),
            "{told}"
        );
        assert!(!told.contains("by the contract, on this machine"), "{told}");
        assert!(told.contains("the answers differ"), "{told}");
        // The same on both sides, it is still not what is promised.
        let told = verdict(other, other).unwrap();
        assert!(!told.contains("the answers differ"), "{told}");
    }

    #[test]
    fn spaces_between_are_nobodys_and_those_in_texts_count() {
        let (answer, spaced) = (
            r#"{"a":["b \" c",1],"d":{}}"#,
            r#"{"a": ["b \" c", 1], "d": {}}"#,
        );
        assert_eq!(compact(spaced), answer);
        assert_eq!(compact(answer), answer);
        let told = verdict(r#"{"outcome":"frozen"}"#, r#"{"outcome":"fro zen"}"#);
        assert!(told.unwrap().contains("the answers differ"));
    }
}
