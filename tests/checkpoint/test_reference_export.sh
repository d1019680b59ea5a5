#!/bin/bash
# Exported folders load in the reference library, where it is installed.
set -eu
. "$(dirname "$0")/../reference/live.sh"
live export.py "$1"
