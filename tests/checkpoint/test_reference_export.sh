#!/bin/bash
# Exported folders in the reference library, where it is there.
set -eu
. "$(dirname "$0")/../reference/live.sh"
live export.py "$1"
