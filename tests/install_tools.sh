#!/usr/bin/env bash
# Installs what some tests need besides Python, where that can be done: Debian, as root. Never fails the run.
set -u
if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
  echo "install_tools: not root on Debian; the tests that need these tools are skipped" >&2
  exit 0
fi
packages=()
command -v chromium > /dev/null || packages+=(chromium)
command -v slurmctld > /dev/null || packages+=(slurmctld slurmd slurm-client munge)
if [ "${#packages[@]}" -gt 0 ]; then
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" > /dev/null \
    || echo "install_tools: could not install ${packages[*]}; the tests that need them are skipped" >&2
fi
exit 0
