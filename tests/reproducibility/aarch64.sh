#!/bin/sh
# Runs tests on an emulated aarch64 processor: those of the vectors, with kernels compiled there.
#
#   tests/reproducibility/aarch64.sh [PYTEST ARGUMENT ...]
#
# Needs Debian or Ubuntu with apt and pip on any processor, the network, and 900 MB; no root, and
# nothing is installed. What it downloads stays in $AARCH64 (build/aarch64 by default): qemu-user, an
# arm64 Python of the distribution, and the arm64 wheels of the versions in constraints.txt. torch is
# not among them, so that tests that capture programs cannot run. $QEMU_CPU chooses the processor:
# cortex-a72 has 128-bit NEON alone, max (the default) has SVE besides.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
work=${AARCH64:-$root/build/aarch64}
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/debs"
work=$(cd "$work" && pwd)

apt_of_arm64() {
    apt-get --quiet --quiet --yes --no-install-recommends \
        --option APT::Architecture=arm64 --option APT::Architectures=arm64 \
        --option Dir::State::lists="$work/lists" --option Dir::State::status="$work/status" \
        --option Dir::Cache="$work/cache" --option Debug::NoLocking=true "$@"
}

fetch() {
    apt-get --quiet --quiet download qemu-user-static
    dpkg-deb --extract qemu-user-static_*.deb qemu
    : >status # of the packages in a system that has none
    apt_of_arm64 update
    needed=$(apt_of_arm64 --simulate install python3 libstdc++6 | sed -n 's/^Inst \([^ ]*\).*/\1/p')
    (cd debs && apt_of_arm64 download $needed)
    for package in debs/*.deb; do
        dpkg-deb --extract "$package" system
    done
    version=$(basename "$(readlink system/usr/bin/python3)" | tr -d 'a-z')
    "${PYTHON:-python3}" -m pip --quiet install --no-deps --target packages \
        --platform manylinux_2_28_aarch64 --platform manylinux2014_aarch64 \
        --python-version "$version" --implementation cp --only-binary=:all: \
        --constraint "$root/constraints.txt" \
        numpy llvmlite numba mpmath gmpy2 eth-hash pycryptodome \
        pytest pytest-xdist execnet pluggy iniconfig packaging pygments hypothesis sortedcontainers
    touch ready
}

[ -e "$work/ready" ] || (cd "$work" && fetch)

cd "$root"
[ $# -gt 0 ] || set -- tests/vectors/test_vectors.py -m "not slow"
export PYTHONPATH="$root:$work/packages" PYTHONDONTWRITEBYTECODE=1 NUMBA_CACHE_DIR="$work/kernels"
exec "$work/qemu/usr/bin/qemu-aarch64-static" -L "$work/system" "$work/system/usr/bin/python3" \
    -m pytest -p no:cacheprovider "$@"
