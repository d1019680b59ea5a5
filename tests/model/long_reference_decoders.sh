#!/bin/bash
# Decoders of random odd shapes beside the reference library, where it is installed.
set -eu
. "$(dirname "$0")/../reference/live.sh"
live odd_decoders.py "$1"
