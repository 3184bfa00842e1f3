//! `--handle-file`: writes a lease's handle, which is a secret, to a file that no other user can read.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Accepts a free path, or a regular file of this user. Refuses a link, a device, or another user's file.
pub(super) fn may_write(path: &Path) -> Result<(), String> {
    let name = path.display();
    if path.file_name().is_none() {
        return Err(format!("{name}: not the name of a file"));
    }
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = folder(path);
            return if folder.is_dir() {
                Ok(())
            } else {
                Err(format!("{name}: {} is not a directory", folder.display()))
            };
        }
        Err(error) => return Err(format!("{name}: {error}")),
    };
    if !found.is_file() {
        return Err(format!(
            "{name}: exists and is not a regular file, so it is not replaced"
        ));
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(format!(
            "{name}: belongs to another user, so it is not replaced"
        ));
    }
    Ok(())
}

/// Writes the handle for this user alone, whole or not at all.
pub(super) fn write(path: &Path, handle: &str) -> Result<(), String> {
    may_write(path)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let new = folder(path).join(name);
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(&new).map_err(failed)?;
    let written = writeln!(file, "{handle}")
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&new, path));
    written.map_err(|error| {
        // Created above by this process.
        _ = fs::remove_file(&new);
        failed(error)
    })
}

fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}
