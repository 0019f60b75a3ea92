#!/bin/sh
# Finds Python and Java, prepares the cached environment if need be, and prints the path of its python.
#
# The environment is outside the tree, in ${LAKESTREAMS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/lakestreams}, and named
# by what it is made of: the pins and the Python version. When nothing has changed, nothing but small files is read.
# PYTHON and JAVA_HOME are honoured; LAKESTREAMS_SPARK=lts takes the pins of requirements/lts.txt instead of local.txt.
# Everything but the path goes to stderr.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
fail() {
    printf 'lakestreams cannot start: %s\n' "$1" >&2
    shift
    for line; do printf '  %s\n' "$line" >&2; done
    exit 1
}

[ -n "${LAKESTREAMS_CACHE:-}${XDG_CACHE_HOME:-}${HOME:-}" ] || fail "there is no place for the cache: HOME is not set." \
    "Set HOME, or LAKESTREAMS_CACHE to a folder that can be written."
cache=${LAKESTREAMS_CACHE:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/lakestreams}

find_java() {
    if [ -n "${JAVA_HOME:-}" ]; then
        java=$JAVA_HOME/bin/java
        [ -x "$java" ] || fail "JAVA_HOME is $JAVA_HOME, and there is no bin/java in it." \
            "Set JAVA_HOME to a JDK 17 or newer, or unset it to use the java on PATH."
    else
        java=$(command -v java) || fail "no Java found: JAVA_HOME is not set and there is no java on PATH." \
            "Install a JDK 17 or 21:" \
            "  Debian, Ubuntu: sudo apt-get install openjdk-17-jdk-headless" \
            "  Fedora:         sudo dnf install java-21-openjdk-headless" \
            "  macOS:          brew install openjdk@21"
    fi
}

check_java() {
    reported=$("$java" -version 2>&1) || fail "$java does not run:" "$reported"
    version=$(printf '%s\n' "$reported" | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1)
    [ "${version:-0}" -ge 17 ] || fail "$java is version ${version:-unknown}; Spark 4 needs a JDK 17 or newer." \
        "Install one (Debian, Ubuntu: sudo apt-get install openjdk-17-jdk-headless) and set JAVA_HOME to it."
}

# Fits if it runs and is 3.11, 3.12 or 3.13; a name on PATH may be a version manager's shim that does neither.
fits() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' >/dev/null 2>&1
}

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        fits "$PYTHON" || fail "PYTHON is $PYTHON, which is not a Python 3.11, 3.12 or 3.13 that runs." \
            "It says: $("$PYTHON" --version 2>&1 | head -n 1)"
        python=$PYTHON
        return
    fi
    for python in python3.13 python3.12 python3.11 python3; do
        fits "$python" && return
    done
    fail "no Python 3.11, 3.12 or 3.13 found (python3 is: $(python3 --version 2>&1 | head -n 1))." \
        "Debian, Ubuntu: sudo apt-get install python3 python3-venv      macOS: brew install python@3.13" \
        "Or name one: PYTHON=/path/to/python3.12 make ..."
}

# The pins are read in full rather than hashed: comparing the record below costs no further process.
runs_on=${LAKESTREAMS_SPARK:-local}
[ -r "$root/requirements/$runs_on.txt" ] || fail "LAKESTREAMS_SPARK is $runs_on, and there is no requirements/$runs_on.txt."
pins=$(cat "$root/requirements/$runs_on.txt" "$root/requirements/dev.txt")
find_java
inputs="$pins
java $java
python ${PYTHON:-}
path $PATH"

mkdir -p "$cache" || fail "the cache folder $cache cannot be made." "Set LAKESTREAMS_CACHE to a folder that can be written."
# One record a tree: two checkouts with different pins do not undo each other's.
record=$cache/bootstrap-$(printf '%s' "$root $runs_on" | cksum | tr ' ' '-')
if [ -r "$record" ]; then
    { IFS= read -r ready && recorded=$(cat); } <"$record" || ready=
    if [ -n "$ready" ] && [ "$recorded" = "$inputs" ] && [ -f "$ready/complete" ] && [ -x "$ready/bin/python" ]; then
        printf '%s\n' "$ready/bin/python"
        exit 0
    fi
fi

check_java
find_python
venv=$("$python" "$root/scripts/make_venv.py" "$cache" "$root/requirements/$runs_on.txt" "$root/requirements/dev.txt")
[ -f "$venv/complete" ] || exit 1
PYTHONPATH=$root/src LAKESTREAMS_CACHE=$cache "$venv/bin/python" -m lakestreams.local.jars >/dev/null
{ printf '%s\n' "$venv" && printf '%s' "$inputs"; } >"$record.$$"
mv "$record.$$" "$record"
printf '%s\n' "$venv/bin/python"
