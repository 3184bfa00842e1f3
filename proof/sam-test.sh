#!/usr/bin/env bash
# Runs every function with every sample event by `sam local invoke`, in Lambda's container, against the local DynamoDB
# (proof/tests/contract/sam.rs). `make -C proof sam-test` builds the functions first and calls this. Takes the Docker that runs here; on
# Debian as root it installs one and starts it for as long as the test takes, with its data below target/engine.
#
#   proof/sam-test.sh SAM [EVENT]     SAM: the sam command; EVENT: only events whose names contain this, or `each`: one of each function
set -euo pipefail
cd "$(dirname "$0")/.."
sam=${1:?usage: proof/sam-test.sh SAM [EVENT]}
export SAM=$PWD/${sam#"$PWD/"} SAM_EVENTS=${2:-} SAM_CLI_TELEMETRY=0
case $(uname -m) in aarch64 | arm64) export SAM_ARCH=arm64 ;; *) export SAM_ARCH=x86_64 ;; esac

answers() { docker version --format '{{.Server.Version}}' > /dev/null 2>&1; }

started=
finish() {
  if [ -n "$started" ]; then
    kill "$started" 2> /dev/null || true
    wait "$started" 2> /dev/null || true
  fi
}
trap finish EXIT

if ! answers; then
  if [ "$(id -u)" != 0 ] || [ ! -e /etc/debian_version ]; then
    echo "sam-test: no Docker answers. Start one, or run this as root on Debian, which installs its own." >&2
    exit 1
  fi
  if ! command -v dockerd > /dev/null || ! command -v iptables > /dev/null; then
    echo "engine: installing docker.io and iptables (apt-get)"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends docker.io iptables > /dev/null
  fi
  engine=$PWD/target/engine
  mkdir -p "$engine"
  export DOCKER_HOST=unix://$engine/docker.sock
  if ! answers; then
    # In a process group of its own: a Ctrl-C is for this script, which then ends it in order.
    setsid dockerd --data-root "$engine/data" --exec-root "$engine/exec" --pidfile "$engine/dockerd.pid" \
      --host "$DOCKER_HOST" > "$engine/dockerd.log" 2>&1 &
    started=$!
    for _ in $(seq 150); do
      answers && break
      kill -0 "$started" 2> /dev/null || break
      sleep 0.2
    done
    answers || { echo "sam-test: dockerd does not answer; see target/engine/dockerd.log" >&2; exit 1; }
    echo "engine: Docker, started for this test, data in target/engine"
  fi
fi

# Lambda's image; where its registry cannot be reached a stand-in: the C library, a shell for SAM's layer, roots to trust.
image=public.ecr.aws/lambda/provided:al2023-$SAM_ARCH
if ! docker image inspect "$image" > /dev/null 2>&1 && ! docker pull --quiet "$image" > /dev/null 2>&1; then
  export SAM_IMAGE=leasehold-stand-in:$SAM_ARCH
  echo "image: NOT Lambda's own, which cannot be fetched: a stand-in of Debian packages, with another C library than Amazon Linux"
  if ! docker image inspect "$SAM_IMAGE" > /dev/null 2>&1; then
    work=$(mktemp -d)
    # apt gives up its rights before it writes here.
    chmod 755 "$work"
    mkdir -m 777 "$work/packages"
    root=$work/root
    mkdir -p "$root"/{bin,dev,etc/ssl/certs,opt,proc,sys,tmp,var/rapid,var/runtime,var/task}
    chmod 1777 "$root/tmp"
    (cd "$work/packages" && apt-get download -qq busybox-static ca-certificates libc6 libgcc-s1 tzdata)
    for package in "$work"/packages/*.deb; do dpkg-deb --extract "$package" "$root"; done
    rm -rf "$root"/usr/share/{doc,locale,lintian,man}
    for applet in cat chmod cp env id ls mkdir mv rm sh; do
      [ -e "$root/bin/$applet" ] || ln -s busybox "$root/bin/$applet"
    done
    cat "$root"/usr/share/ca-certificates/mozilla/* > "$root/etc/ssl/certs/ca-certificates.crt"
    printf 'root:x:0:0:root:/root:/bin/sh\nsbx_user1051:x:993:990::/home/sbx_user1051:/bin/sh\n' > "$root/etc/passwd"
    echo root:x:0: > "$root/etc/group"
    echo "hosts: files dns" > "$root/etc/nsswitch.conf"
    tar --create --directory "$root" . | docker import \
      --change "ENV LAMBDA_TASK_ROOT=/var/task LAMBDA_RUNTIME_DIR=/var/runtime LANG=en_US.UTF-8 TZ=:/etc/localtime" \
      --change "ENV PATH=/usr/local/bin:/usr/bin:/bin:/opt/bin" --change "WORKDIR /var/task" - "$SAM_IMAGE" > /dev/null
    rm -rf "$work"
  fi
fi

# Without a package: what `cargo build --workspace` has built is used as it is.
cargo test --workspace --locked --test contract -- sam:: --ignored --nocapture
