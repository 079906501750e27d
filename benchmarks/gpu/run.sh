#!/usr/bin/env bash
# Measure all parts on this machine's GPU within a limit of seconds, and pack the results (README.md in this folder).
#
#   benchmarks/gpu/run.sh [--device cuda|cpu] [--limit SECONDS] [--repeat-failed] [--only PART,PART] [--out FOLDER] [--plan]
#
# Wheels in .whl/ or wheels/ are installed into a temporary folder first, without the internet.
set -euo pipefail
started=$EPOCHSECONDS
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
python=${PYTHON:-python3}
paths="$PWD:$PWD/cli:$PWD/reports"
for folder in .whl wheels; do
    if compgen -G "$folder/*.whl" > /dev/null; then
        site="${TMPDIR:-/tmp}/perfkit-gpu-site"
        "$python" -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir --upgrade --target "$site" \
            "$folder"/*.whl
        paths="$paths:$site"
        break
    fi
done
export PYTHONPATH="$paths${PYTHONPATH:+:$PYTHONPATH}"
export PYTHONUNBUFFERED=1
exec "$python" -m benchmarks.gpu.runner --started "$started" "$@"
