//! The output that the documents show is the command line's real output.

use std::path::Path;
use std::time::Duration;

use crate::fixture::{Fixture, LEASEHOLD, ended, masked};

#[tokio::test]
async fn transcript_in_documents_is_true() {
    let text = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../docs/operate/keys.md"
    ))
    .unwrap();
    let section = text.split("\n## Look at keys\n").nth(1).unwrap();
    let blocks = section.split("```\n").skip(1).step_by(2);
    let shown = blocks
        .into_iter()
        .find(|block| block.starts_with("$ "))
        .unwrap();

    let fixture = Fixture::start().await;
    fixture
        .grant("deploy/production", "ci/4711", Duration::from_secs(600))
        .await;
    fixture
        .grant("orders/42", "worker 7", Duration::from_secs(600))
        .await;
    let programs = Path::new(LEASEHOLD).parent().unwrap();
    let mut said = String::new();
    for line in shown.lines().filter_map(|line| line.strip_prefix("$ ")) {
        let mut command = fixture.program("sh");
        command
            .args(["-c", &format!("exec 2>&1; {line}")])
            .env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
        let ran = ended(command).await;
        said.extend(["$ ", line, "\n", &ran.out]);
        if line.contains("--no-wait") {
            ran.ended(75);
        }
    }
    println!("{said}");
    assert_eq!(masked(&said), masked(shown));
}
