#!/usr/bin/env bash
# Builds the images and tests them on a Debian machine with neither a Docker engine nor a registry of
# images, as root: a base made of Debian's packages stands in for python:3.12-slim. Needs buildah,
# debootstrap, podman and runc (all in Debian), and the project's environment (`make check`).
#
#     docker/without_docker.sh [FOLDER]    the folder keeps the base for the next time
set -euo pipefail
cd "$(dirname "$0")/.."
work=${1:-$(mktemp -d)}
root=$work/root
base=docker.io/library/python:3.12-slim
image=localhost/jetstream-server:test
demo=localhost/jetstream-demo:test
mkdir -p "$work"
# Containers may have what this shell may have, and no more, which would be refused.
export CONTAINERS_CONF=$work/containers.conf
cat >"$CONTAINERS_CONF" <<EOF
[containers]
default_ulimits = ["nofile=$(ulimit -Hn):$(ulimit -Hn)", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
EOF

if [ ! -e "$work/ready" ]; then
  rm -rf "$root"
  suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
  debootstrap --variant=minbase --include=ca-certificates,python3,python3-pip "$suite" "$root" \
    http://deb.debian.org/debian >"$work/debootstrap.log"
  # The headers, without the static library and the compilers that their package wants.
  version=$(chroot "$root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  (cd "$work" && apt-get download "libpython$version-dev" && dpkg -x libpython*-dev*.deb headers)
  cp -a "$work/headers/usr/include/." "$root/usr/include/"
  ln -sf python3 "$root/usr/bin/python"
  rm -f "$root"/usr/lib/python3*/EXTERNALLY-MANAGED
  rm -rf "$root"/var/cache/apt "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale,info}
  # What this machine trusts, pip has to trust in there.
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
  printf '[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n' >"$root/etc/pip.conf"
  touch "$work/ready"
fi
tar -C "$root" -c . | podman import - "$base"
build() {
  buildah build --format docker --isolation chroot --network host -f "docker/$1" -t "$2" .
  podman save "$2" | gzip | wc -c | awk -v of="$2" '{ printf "%s: %.0f MB to transfer\n", of, $1 / 1e6 }'
}
build Dockerfile "$image"
build demo.Dockerfile "$demo"

podman system service --time 0 "unix://$work/engine" &
trap 'kill $!' EXIT
until [ -S "$work/engine" ]; do sleep 0.1; done
# An engine that answers as Docker does but for its list of containers.
export DOCKER_HOST=unix://$work/engine TESTCONTAINERS_RYUK_DISABLED=true
export TESTCONTAINERS_CONNECTION_MODE=docker_host TESTCONTAINERS_HOST_OVERRIDE=127.0.0.1
JETSTREAM_IMAGE=$image JETSTREAM_DEMO_IMAGE=$demo .venv/bin/pytest tests/docker
