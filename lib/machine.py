"""The machine that a measurement runs on: what it is, and what it has free. No names of hosts or users."""

import ctypes
import os
import platform
import re
import subprocess
from pathlib import Path

import psutil

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
CONTROL_GROUP = Path("/sys/fs/cgroup")
UNKNOWN_LAST_CACHE = 64 * 2**20
_SUFFIX = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


def processor():
    """Return what the processor says about itself.

    Returns
    -------
    dict
        "name", "cores" (that this process may use), "caches" in bytes by level, "last_cache",
        "memory" in bytes, "system", "virtual" (true, false, or none where it cannot be told).
        A last cache that nothing documents is taken as 64 MiB, and "caches" is empty.
    """
    told = _cpuinfo()
    name = told.get("model name") or _sysctl("machdep.cpu.brand_string") or platform.processor() or platform.machine()
    family = ", ".join(
        f"{key} {told[word]}" for key, word in (("family", "cpu family"), ("model", "model")) if word in told
    )
    sizes = caches()
    return {
        "name": f"{name} ({family})" if family else name,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "caches": sizes,
        "last_cache": max(sizes.values(), default=UNKNOWN_LAST_CACHE),
        "memory": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "virtual": "hypervisor" in told["flags"].split() if "flags" in told else None,
    }


def caches():
    """Return the size in bytes of each cache that holds data, by level: ``{"L1d": 32768, ...}``."""
    sizes = {}
    for index in sorted(CACHES.glob("index*")):
        kind, level, size = (_read(index / name) for name in ("type", "level", "size"))
        if kind in ("Data", "Unified") and (match := re.fullmatch(r"(\d+)([KMG]?)", size)):
            sizes[f"L{level}{'d' if kind == 'Data' else ''}"] = int(match[1]) * _SUFFIX[match[2]]
    if not sizes:
        for level, name in (("L1d", "hw.l1dcachesize"), ("L2", "hw.l2cachesize"), ("L3", "hw.l3cachesize")):
            if (text := _sysctl(name)).isdigit() and int(text):
                sizes[level] = int(text)
    return sizes


def free_memory():
    """Return the bytes that a process may still take: of the machine, or of its control group if that is less."""
    free = psutil.virtual_memory().available
    limit, used = _read(CONTROL_GROUP / "memory.max"), _read(CONTROL_GROUP / "memory.current")
    return min(free, int(limit) - int(used)) if limit.isdigit() and used.isdigit() else free


def driver():
    """Return the version of the NVIDIA driver, or an empty text."""
    try:
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return (
            subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
            .stdout.split("\n")[0]
            .strip()
        )
    except (OSError, subprocess.SubprocessError):
        return ""


def _cpuinfo():
    pairs = (line.split(":", 1) for line in _read(Path("/proc/cpuinfo")).split("\n\n")[0].splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}


def _sysctl(name):
    if platform.system() != "Darwin":
        return ""
    size, library = ctypes.c_size_t(256), ctypes.CDLL(None)
    held = ctypes.create_string_buffer(256)
    if library.sysctlbyname(name.encode(), held, ctypes.byref(size), None, 0):
        return ""
    if name.startswith("hw."):
        return str(int.from_bytes(held.raw[: size.value], "little"))
    return held.value.decode()


def _read(path):
    try:
        return path.read_text().strip()
    except OSError:
        return ""
