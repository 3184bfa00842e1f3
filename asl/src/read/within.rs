//! Confines the files that another file names: the definition of a template, the machine of a specification, and the output.

use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// The real path behind `path`, if that is within a directory at any depth. Links are followed. For a file that does not exist yet,
/// its directory counts.
///
/// # Errors
///
/// If it is anywhere else, or if its place cannot be determined.
pub fn confine_path(directory: &Path, path: &Path) -> Result<PathBuf> {
    let real = |path: &Path| {
        let here = path.as_os_str().is_empty();
        if here { Path::new(".") } else { path }.canonicalize()
    };
    let tree = real(directory)?;
    let found = match (real(path), path.parent(), path.file_name()) {
        (Err(error), Some(parent), Some(name)) if error.kind() == ErrorKind::NotFound => {
            real(parent)?.join(name)
        }
        (found, ..) => found?,
    };
    if found.starts_with(&tree) {
        return Ok(found);
    }
    Err(Error::new(
        ErrorKind::PermissionDenied,
        format!(
            "is not within {}, and files elsewhere are neither read nor written: move it there, or use --within DIRECTORY",
            tree.display()
        ),
    ))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn path_outside_directory_is_refused() {
        let place = std::env::temp_dir().join(format!("leasehold-within-{}", std::process::id()));
        let tree = place.join("tree");
        std::fs::create_dir_all(tree.join("a/b")).unwrap();
        std::fs::write(place.join("outside"), "").unwrap();
        std::fs::write(tree.join("a/inside"), "").unwrap();
        symlink("../outside", tree.join("out")).unwrap();
        symlink("..", tree.join("up")).unwrap();
        symlink("a/inside", tree.join("in")).unwrap();
        let leads = |path: &str| confine_path(&tree, &tree.join(path));
        for inside in ["a/inside", "a/b/../inside", "in", "new", "a/new"] {
            assert!(leads(inside).is_ok(), "{inside}");
        }
        let elsewhere = place.join("outside");
        for outside in [
            "../outside",
            "../new",
            "a/../../outside",
            "out",
            "up/outside",
            "up/new",
            "..",
            elsewhere.to_str().unwrap(),
            "/etc/passwd",
        ] {
            let error = leads(outside).unwrap_err();
            assert!(error.to_string().contains("--within"), "{outside}: {error}");
        }
        assert!(leads("nowhere/new").is_err());
        assert!(confine_path(Path::new(""), Path::new("Cargo.toml")).is_ok());
        std::fs::remove_dir_all(place).unwrap();
    }
}
