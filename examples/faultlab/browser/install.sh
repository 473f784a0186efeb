#!/usr/bin/env bash
# Finds or installs the Chromium that the tests in this directory drive. Exit status 77: there is none, and
# none could be installed; the tests are skipped then.
set -uo pipefail

for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome google-chrome-stable headless-shell; do
  [[ -n $name ]] && command -v "$name" >/dev/null && exit 0
done
if command -v apt-get >/dev/null && [[ $(id -u) == 0 ]]; then
  apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium fonts-dejavu-core
fi
command -v chromium >/dev/null && exit 0
echo "no Chromium, and none could be installed: the tests of the fault lab's page are skipped"
exit 77
