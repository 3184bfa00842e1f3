//! The image that functions run in: Lambda's own, or where no registry can be reached a stand-in.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use crate::engine::Engine;
use crate::error::{Error, io};
use crate::program::{command, run};

const TO_LOOK: Duration = Duration::from_secs(10);
const TO_PULL: Duration = Duration::from_mins(3);
const TO_FETCH: Duration = Duration::from_mins(3);

/// What a stand-in is made of: the C library, a shell with the tools that SAM's own layer needs, and roots to trust.
const PACKAGES: [&str; 5] = [
    "busybox-static",
    "ca-certificates",
    "libc6",
    "libgcc-s1",
    "tzdata",
];
const APPLETS: [&str; 10] = [
    "cat", "chmod", "cp", "env", "id", "ls", "mkdir", "mv", "rm", "sh",
];

/// An image that is there.
pub(crate) struct Image {
    /// What SAM is told to use instead of Lambda's own.
    pub(crate) instead: Option<String>,
}

impl Image {
    /// Finds the image, fetches it, or makes a stand-in.
    pub(crate) async fn find(engine: &Engine, architecture: &str) -> Result<Self, Error> {
        let own = format!("public.ecr.aws/lambda/provided:al2023-{architecture}");
        if is_there(engine, &own).await {
            println!("image: {own}");
            return Ok(Self { instead: None });
        }
        let pulled = run(&mut engine.docker(&["pull", "--quiet", &own]), TO_PULL).await;
        if pulled.and_then(crate::program::Ended::well).is_ok() {
            println!("image: {own}, fetched");
            return Ok(Self { instead: None });
        }
        let stand_in = format!("leasehold-stand-in:{architecture}");
        if !is_there(engine, &stand_in).await {
            make(engine, &stand_in).await?;
        }
        println!(
            "image: NOT Lambda's own, which could not be fetched: a stand-in of Debian packages, \
             with another C library than Amazon Linux has"
        );
        Ok(Self {
            instead: Some(stand_in),
        })
    }
}

async fn is_there(engine: &Engine, name: &str) -> bool {
    let asked = run(&mut engine.docker(&["image", "inspect", name]), TO_LOOK).await;
    asked.is_ok_and(|ended| ended.well().is_ok())
}

async fn make(engine: &Engine, name: &str) -> Result<(), Error> {
    let directory = tempfile::tempdir().map_err(io("create a temporary directory"))?;
    let (packages, root) = (
        directory.path().join("packages"),
        directory.path().join("root"),
    );
    // apt gives up its rights before it writes here.
    for (path, mode) in [
        (directory.path(), 0o755),
        (&packages, 0o777),
        (&root, 0o755),
    ] {
        create(path, mode)?;
    }
    let mut apt = command("apt-get");
    apt.args(["download", "-qq"])
        .args(PACKAGES)
        .current_dir(&packages);
    run(&mut apt, TO_FETCH).await?.well()?;
    let entries = std::fs::read_dir(&packages).map_err(io("read the packages"))?;
    for package in entries.flatten() {
        let mut unpack = command("dpkg-deb");
        unpack.arg("--extract").arg(package.path()).arg(&root);
        run(&mut unpack, TO_FETCH).await?.well()?;
    }
    furnish(&root)?;
    let archive = directory.path().join("root.tar");
    let mut tar = command("tar");
    tar.arg("--create")
        .arg("--file")
        .arg(&archive)
        .arg("--directory")
        .arg(&root)
        .arg(".");
    run(&mut tar, TO_FETCH).await?.well()?;
    let archive = archive.display().to_string();
    let settings = [
        "ENV LAMBDA_TASK_ROOT=/var/task",
        "ENV LAMBDA_RUNTIME_DIR=/var/runtime",
        "ENV LANG=en_US.UTF-8",
        "ENV PATH=/usr/local/bin:/usr/bin:/bin:/opt/bin",
        "ENV TZ=:/etc/localtime",
        "WORKDIR /var/task",
    ];
    let changes = settings.iter().flat_map(|setting| ["--change", setting]);
    let mut import = engine.docker(&["import"]);
    import.args(changes).args([archive.as_str(), name]);
    run(&mut import, TO_FETCH).await?.well()?;
    Ok(())
}

/// Makes of unpacked packages what a runtime expects.
fn furnish(root: &Path) -> Result<(), Error> {
    for waste in ["doc", "locale", "lintian", "man"] {
        // What is not there need not go.
        let _ = std::fs::remove_dir_all(root.join("usr/share").join(waste));
    }
    for place in [
        "bin",
        "dev",
        "etc/ssl/certs",
        "opt",
        "proc",
        "sys",
        "var/rapid",
        "var/runtime",
        "var/task",
    ] {
        create(&root.join(place), 0o755)?;
    }
    create(&root.join("tmp"), 0o1777)?;
    for applet in APPLETS {
        let path = root.join("bin").join(applet);
        if !path.exists() {
            symlink("busybox", &path).map_err(io(format!("link {applet}")))?;
        }
    }
    let mut roots = String::new();
    let mozilla = root.join("usr/share/ca-certificates/mozilla");
    let certificates = std::fs::read_dir(mozilla).map_err(io("read the certificates"))?;
    for certificate in certificates.flatten() {
        roots += &std::fs::read_to_string(certificate.path()).map_err(io("read a certificate"))?;
    }
    let users =
        "root:x:0:0:root:/root:/bin/sh\nsbx_user1051:x:993:990::/home/sbx_user1051:/bin/sh\n";
    for (name, text) in [
        ("etc/ssl/certs/ca-certificates.crt", roots.as_str()),
        ("etc/passwd", users),
        ("etc/group", "root:x:0:\n"),
        ("etc/nsswitch.conf", "hosts: files dns\n"),
    ] {
        std::fs::write(root.join(name), text).map_err(io(format!("write {name}")))?;
    }
    Ok(())
}

fn create(path: &Path, mode: u32) -> Result<(), Error> {
    let what = || format!("create {}", path.display());
    std::fs::create_dir_all(path).map_err(io(what()))?;
    let mode = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(path, mode).map_err(io(what()))
}
