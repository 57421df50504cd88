"""The allow-list of system calls for the code of the `python` tool, enforced by a seccomp filter.

Contains what CPython needs for computing and for its own files. Everything else fails with EPERM, which Python raises
as PermissionError.
"""

import ctypes
import os
from collections.abc import Iterator

_PR_SET_SECCOMP, _SECCOMP_FILTER = 22, 2
_LOAD, _AND, _IS, _IS_AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06  # BPF instructions
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050001  # with EPERM
_OTHER_NUMBERS = 0x40000000  # system calls of the x32 ABI
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16  # offsets in the kernel's `struct seccomp_data`
_ANY = 0xFFFFFFFF
# The AUDIT_ARCH of each architecture, and the index of its numbers in `_ALLOWED`.
_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}

# name:number on x86-64:number on ARM64, which lacks the older calls. What Landlock does not govern, or not from its
# first ABI on (chmod, chown, utime, setxattr, truncate), is missing or works on open files alone.
_ALLOWED = """
    read:0:63 write:1:64 readv:19:65 writev:20:66 pread64:17:67 pwrite64:18:68 lseek:8:62 close:3:57
    close_range:436:436 dup:32:23 dup2:33: dup3:292:24 pipe:22: pipe2:293:59 sendfile:40:71 copy_file_range:326:285

    fsync:74:82 fdatasync:75:83 ftruncate:77:46 fallocate:285:47 fadvise64:221:223 flock:73:32 fchmod:91:52
    umask:95:166 stat:4: lstat:6: fstat:5:80 newfstatat:262:79 statx:332:291 statfs:137:43 fstatfs:138:44 access:21:
    faccessat:269:48 faccessat2:439:439 getdents64:217:61 getcwd:79:17 chdir:80:49 fchdir:81:50

    mkdir:83: mkdirat:258:34 rmdir:84: unlink:87: unlinkat:263:35 rename:82: renameat:264:38 renameat2:316:276
    link:86: linkat:265:37 symlink:88: symlinkat:266:36 readlink:89: readlinkat:267:78

    mmap:9:222 munmap:11:215 mprotect:10:226 mremap:25:216 madvise:28:233 msync:26:227 brk:12:214 futex:202:98
    getrandom:318:278

    select:23: pselect6:270:72 poll:7: ppoll:271:73 epoll_create1:291:20 epoll_ctl:233:21 epoll_wait:232:
    epoll_pwait:281:22 eventfd2:290:19

    clock_gettime:228:113 clock_getres:229:114 clock_nanosleep:230:115 nanosleep:35:101 gettimeofday:96:169 time:201:
    times:100:153 getrusage:98:165 alarm:37: getitimer:36:102 setitimer:38:103 pause:34:

    rt_sigaction:13:134 rt_sigprocmask:14:135 rt_sigreturn:15:139 rt_sigpending:127:136 rt_sigsuspend:130:133
    rt_sigtimedwait:128:137 sigaltstack:131:132 restart_syscall:219:128

    getpid:39:172 getppid:110:173 getpgrp:111: getpgid:121:155 getsid:124:156 gettid:186:178 getuid:102:174
    geteuid:107:175 getgid:104:176 getegid:108:177 getresuid:118:148 getresgid:120:150 getgroups:115:158
    uname:63:160 sysinfo:99:179 getcpu:309:168 sched_yield:24:124 sched_getaffinity:204:123 getrlimit:97:163
    exit:60:93 exit_group:231:94

    open:2: openat:257:56 fcntl:72:25 ioctl:16:29 prlimit64:302:261 tgkill:234:131
"""
# Access mode and O_TRUNC: a file that is opened for reading cannot be truncated, which older ABIs of Landlock allow.
_OPEN_FLAGS = (0x203, (0, 1, 2, 0x201, 0x202))
# F_DUPFD to F_SETLKW, the locks of open files, pipe sizes. Not F_SETOWN and F_SETSIG, which send signals to others.
_FILE_COMMANDS = (_ANY, (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1031, 1032))
# TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX.
_DEVICE_COMMANDS = (_ANY, (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451))


class _Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("value", ctypes.c_uint32)]


class _Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction))]


def restrict(libc: ctypes.CDLL) -> bool:
    """Restrict this process to the allow-list for ever. Return whether the kernel enforces it.

    Needs no-new-privileges. A signal can be sent to this process only, so call it in the process that runs the code.
    """
    known = _ARCHITECTURES.get(os.uname().machine)
    if known is None:
        return False
    steps = list(_program(*known))
    whole = _Filter(len(steps), (_Instruction * len(steps))(*(_Instruction(*step) for step in steps)))
    return bool(libc.prctl(_PR_SET_SECCOMP, _SECCOMP_FILTER, ctypes.byref(whole), 0, 0) == 0)


def _program(architecture: int, column: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the BPF instructions: code, steps to skip if true, if false, value."""
    # Index, mask and values of the one argument that is checked. Only the lower 32 bits count for the kernel, too.
    checked = {
        "open": (1, *_OPEN_FLAGS),
        "openat": (2, *_OPEN_FLAGS),
        "fcntl": (1, *_FILE_COMMANDS),
        "ioctl": (1, *_DEVICE_COMMANDS),
        "prlimit64": (0, _ANY, (0,)),  # of this process
        "tgkill": (0, _ANY, (os.getpid(),)),
    }
    yield from ((_LOAD, 0, 0, _ARCHITECTURE_AT), (_IS, 1, 0, architecture), (_RETURN, 0, 0, _REFUSE))
    yield from ((_LOAD, 0, 0, _NUMBER_AT), (_IS_AT_LEAST, 0, 1, _OTHER_NUMBERS), (_RETURN, 0, 0, _REFUSE))
    for entry in _ALLOWED.split():
        name, *numbers = entry.split(":")
        if not numbers[column]:
            continue
        block = [(_RETURN, 0, 0, _ALLOW)]
        if name in checked:
            index, mask, values = checked[name]
            block = [(_LOAD, 0, 0, _ARGUMENTS_AT + 8 * index), (_AND, 0, 0, mask)]
            for value in values:
                block += [(_IS, 0, 1, value), (_RETURN, 0, 0, _ALLOW)]
            block.append((_RETURN, 0, 0, _REFUSE))
        yield (_IS, 0, len(block), int(numbers[column]))
        yield from block
    yield (_RETURN, 0, 0, _REFUSE)
