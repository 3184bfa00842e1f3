//! How `sam local invoke` finds the stack: its containers have a loopback of their own.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use crate::{Error, Stack};

use super::files::quoted;

/// This machine, as containers on Docker's default network see it.
const BRIDGE: IpAddr = IpAddr::V4(Ipv4Addr::new(172, 17, 0, 1));

/// Where what functions call is for containers.
#[derive(Debug)]
pub(super) struct Containers {
    pub(super) host: String,
    has_bridge: bool,
}

impl Containers {
    /// Lets what functions call listen at `address`, or where Docker expects this machine to be.
    pub(super) async fn reach(stack: &mut Stack, address: Option<IpAddr>) -> Result<Self, Error> {
        let ip = address.unwrap_or(BRIDGE);
        match stack.listen_also(ip).await {
            Ok(()) => Ok(Self {
                host: ip.to_string(),
                has_bridge: true,
            }),
            Err(Error::Io { source, .. })
                if address.is_none() && source.kind() == ErrorKind::AddrNotAvailable =>
            {
                Ok(Self {
                    // Docker Desktop passes this name on to the machine's own loopback.
                    host: "host.docker.internal".to_owned(),
                    has_bridge: false,
                })
            }
            Err(error) => Err(error),
        }
    }

    /// What to type, for the instruction set of this machine, which its containers run without emulation.
    pub(super) fn told(&self, json: &Path) -> String {
        let architecture = match std::env::consts::ARCH {
            "aarch64" => "arm64",
            other => other,
        };
        let json = quoted(&json.display().to_string());
        let doubt = if self.has_bridge {
            String::new()
        } else {
            format!(
                "
There is no {BRIDGE} here, so {json} names host.docker.internal, as Docker Desktop has it.
With Docker on Linux: start it first, or give its address with --container-address.
"
            )
        };
        format!(
            "In Lambda's container: make invoke EVENT=acquire. By SAM itself, after make build ARCH={architecture}:

  sam local invoke AcquireFunction --parameter-overrides Architecture={architecture} --skip-pull-image \\
    -n {json} -e events/acquire.json
{doubt}"
        )
    }
}
