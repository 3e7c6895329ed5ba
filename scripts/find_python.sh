#!/bin/sh
# Print a Python 3.11 to 3.13 that can make environments, or say in one line what is missing and its cure.
seen=""
for python in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
    case $version in
        3.11 | 3.12 | 3.13) ;;
        *) seen="$seen $python is $version;"; continue ;;
    esac
    if "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        command -v "$python"
        exit 0
    fi
    seen="$seen $python has no venv module (Debian: apt install python$version-venv);"
done
echo "Python 3.11, 3.12 or 3.13 with its venv module is needed;${seen:- none was found;} install one (Debian: apt install python3 python3-venv; macOS: brew install python@3.13) or name one: make book PYTHON=/path/to/python" >&2
exit 1
