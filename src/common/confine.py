"""A process gives up its rights for good: files, network, signals, memory. Linux alone, without privileges.

Landlock (Linux 5.13) limits the files that can be opened to those below named paths, and what follows: a process
outside cannot be traced, nor its memory read. A seccomp filter takes away sockets, tracing and the ways out of a
process group. Both hold for every child, and neither can be undone. Sources: landlock.rst and seccomp_filter.rst in
Documentation/userspace-api of Linux 6.12.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import resource
import stat
import struct
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_NO_NEW_PRIVILEGES, _SECCOMP, _PARENT_DEATH = 38, 22, 1

#: The capability to open files whatever their mode, of a root whose folders are another's.
_OVERRIDE = 1 << 1

# Rights to files by bit; those from 13 on came with later versions of Landlock.
_EXECUTE, _WRITE, _READ, _LIST = 1, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _DEVICE = 1 << 14, 1 << 15
_OF_A_FILE = _EXECUTE | _WRITE | _READ | _TRUNCATE | _DEVICE
#: Versions of Landlock by the number of rights to files that they know.
_KNOWN = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}

#: Numbers of system calls that a filter refuses, by machine: socket, ptrace, setpgid, setsid, process_vm_readv and
#: process_vm_writev; io_uring_setup and pidfd_getfd have one number everywhere.
_REFUSED = {
    "x86_64": (0xC000003E, (41, 101, 109, 112, 310, 311, 425, 438)),
    "aarch64": (0xC00000B7, (198, 117, 154, 157, 270, 271, 425, 438)),
}


def landlock_version() -> int:
    """The version of Landlock that the system offers, 0 where it offers none."""
    if sys.platform != "linux":
        return 0
    return max(int(_LIBC.syscall(_CREATE, None, ctypes.c_size_t(0), 1)), 0)


def restrict_files(
    readable: Iterable[Path], writable: Iterable[Path], hidden: Iterable[Path], files: Iterable[Path] = ()
) -> bool:
    """Let this process open only what lies below some paths, from now on; False where the system cannot.

    Args:
        readable: files and folders to read; those that are not there are skipped.
        writable: files, devices and folders to read and to write.
        hidden: folders and files that stay closed, whatever they lie in.
        files: files to read, wherever they lie.
    """
    version = landlock_version()
    if not version:
        return False
    known = (1 << _KNOWN[min(version, max(_KNOWN))]) - 1
    # TCP is handled and none allowed from version 4 on; signals and abstract sockets stay inside from 6 on.
    attributes = struct.pack("=QQQ", known, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 8 if version < 4 else 16 if version < 6 else 24
    rules = _checked(_LIBC.syscall(_CREATE, attributes, ctypes.c_size_t(size), 0))
    closed = [Path(path).resolve() for path in hidden]
    for paths, rights in ((readable, _EXECUTE | _READ | _LIST), (writable, known & ~_EXECUTE)):
        for path in paths:
            for part in _without(Path(path).resolve(), closed):
                _allow(rules, part, rights & known)
    for file in files:
        _allow(rules, Path(file), _READ)
    _checked(_LIBC.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _checked(_LIBC.syscall(_RESTRICT, rules, 0))
    os.close(rules)
    return True


def _without(path: Path, hidden: list[Path]) -> Iterator[Path]:
    """A path, or what lies in it but for what is hidden."""
    if any(path.is_relative_to(closed) for closed in hidden):
        return
    if not any(closed.is_relative_to(path) for closed in hidden):
        yield path
        return
    with contextlib.suppress(OSError):
        for part in sorted(path.iterdir()):
            # A link leads to what has a path, and a right, of its own.
            if not part.is_symlink():
                yield from _without(part, hidden)


def _allow(rules: int, path: Path, rights: int) -> None:
    """Add a rule for a path; one that is gone or closed to the user is skipped."""
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            rights &= _OF_A_FILE
        elif rights == _READ:
            return
        _checked(_LIBC.syscall(_ADD, rules, 1, struct.pack("=Qi", rights, handle), 0))
    finally:
        os.close(handle)


def restrict_calls() -> bool:
    """Take sockets, tracing and new process groups from this process, from now on; False where the system cannot.

    Pairs of connected sockets stay, and so does what is open.
    """
    if sys.platform != "linux" or platform.machine() not in _REFUSED:
        return False
    machine, refused = _REFUSED[platform.machine()]
    load, equal, at_least, answer = 0x20, 0x15, 0x35, 0x06
    allow, refuse, kill = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x80000000
    checks = [(equal, len(refused) - place, 0, number) for place, number in enumerate(refused)]
    program = [
        (load, 0, 0, 4),  # the machine
        (equal, 1, 0, machine),
        (answer, 0, 0, kill),
        (load, 0, 0, 0),  # the call
        (at_least, len(refused) + 1, 0, 0x40000000),  # x32 has the same calls under other numbers
        *checks,
        (answer, 0, 0, allow),
        (answer, 0, 0, refuse),
    ]
    content = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in program))
    header = struct.pack("@HP", len(program), ctypes.addressof(content))
    _checked(_LIBC.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    return int(_LIBC.prctl(_SECCOMP, 2, header, 0, 0)) == 0


def drop_capabilities() -> None:
    """Give up what root may do beyond a user, but for opening files whatever their mode: it would pass by Landlock."""
    if sys.platform != "linux":
        return
    # Version 3 of the header, this process; effective, permitted and inheritable sets, low words and high.
    header, words = struct.pack("=Ii", 0x20080522, 0), ctypes.create_string_buffer(24)
    _checked(_LIBC.capget(header, words))
    kept = [word & (_OVERRIDE if place < 2 else 0) for place, word in enumerate(struct.unpack("=6I", words.raw))]
    _checked(_LIBC.capset(header, struct.pack("=6I", *kept)))


def end_with_parent() -> None:
    """Have the system kill this process when the one that made it ends."""
    if sys.platform == "linux":
        import signal

        _checked(_LIBC.prctl(_PARENT_DEATH, int(signal.SIGKILL), 0, 0, 0))


def machine_memory() -> int:
    """Bytes of memory that this machine has, or its control group may take, where that is less."""
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError):
        found = min(found, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return found


def limit_memory(size: int | None = None) -> None:
    """Hold this process's own memory (not files that it maps) to so many bytes, without a number those of the machine.

    A reader that asks for more meets a MemoryError, where the system would end this process or another.
    """
    size = machine_memory() if size is None else size
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (size, size))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
