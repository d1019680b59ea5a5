#!/bin/bash
# Logits and gradients beside the reference library, where it is installed.
set -eu
. "$(dirname "$0")/../reference/live.sh"
live parity.py "$1"
live oddities.py "$1"
