//! How other programs find the stack: `env.sh` for shells, `env.json` for `sam local invoke`.

use std::path::PathBuf;

use crate::{Error, Stack};

/// The two files in the run directory.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) script: PathBuf,
    pub(super) json: PathBuf,
}

impl Files {
    pub(super) fn write(stack: &Stack, host_for_containers: &str) -> Result<Self, Error> {
        let files = Self {
            script: stack.run_directory().join("env.sh"),
            json: stack.run_directory().join("env.json"),
        };
        // Loopback is the container's own there, whatever `--docker-network` says: sam takes no notice of `host`.
        let environments = stack.environments(host_for_containers);
        let json = serde_json::to_string_pretty(&environments).unwrap_or_default() + "\n";
        for (file, text) in [(&files.script, exports(stack)), (&files.json, json)] {
            let what = || format!("write {}", file.display());
            std::fs::write(file, text).map_err(|source| Error::Io {
                what: what(),
                source,
            })?;
        }
        Ok(files)
    }

    pub(super) fn remove(&self) {
        for file in [&self.script, &self.json] {
            // Whoever removed it first did no harm.
            let _ = std::fs::remove_file(file);
        }
    }
}

/// The lines that point the AWS CLI and every SDK at the stack, and the functions' own settings, so that a
/// program that uses the library finds the table.
pub(super) fn exports(stack: &Stack) -> String {
    let mut variables = vec![
        ("AWS_ENDPOINT_URL_DYNAMODB", stack.dynamodb_url()),
        ("AWS_ENDPOINT_URL_LAMBDA", stack.lambda_url()),
        ("AWS_ENDPOINT_URL_SFN", stack.sfn_url().to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_DEFAULT_REGION", "us-east-1".to_owned()),
        ("AWS_ACCESS_KEY_ID", "local".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "local".to_owned()),
    ];
    variables.extend(
        stack
            .environment()
            .iter()
            .filter(|(name, _)| !name.starts_with("AWS_"))
            .map(|(name, value)| (name.as_str(), value.clone())),
    );
    let lines = variables
        .iter()
        .map(|(name, value)| format!("export {name}={}", quoted(value)));
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

/// A value as a shell reads it back: plain where nothing could be misread, in single quotes otherwise.
pub(super) fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,=".contains(c);
    if !value.is_empty() && value.chars().all(plain) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_value_survives_the_shell() {
        assert_eq!(
            super::quoted("http://127.0.0.1:8000"),
            "http://127.0.0.1:8000"
        );
        assert_eq!(super::quoted(""), "''");
        assert_eq!(super::quoted("it's $HOME"), r"'it'\''s $HOME'");
    }
}
