"""What a case did and what came of it, in a form that two filesystems can be compared by."""

import ctypes
import ctypes.util
import errno
import os
import pickle
import traceback

libc = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)

AT_FDCWD = -100
RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT = 1, 2, 4
FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, FALLOC_COLLAPSE, FALLOC_ZERO, FALLOC_INSERT = 1, 2, 8, 16, 32
O_TMPFILE = 0o20000000 | os.O_DIRECTORY
FICLONE, FICLONERANGE = 0x40049409, 0x4020940D
FS_IOC_GETFLAGS = 0x80086601


def _checked(result):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def renameat2(old, new, flags):
    return _checked(libc.renameat2(AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), flags))


def fallocate(fd, mode, offset, length):
    return _checked(libc.fallocate(fd, mode, ctypes.c_int64(offset), ctypes.c_int64(length)))


def copy_file_range(fd_in, offset_in, fd_out, offset_out, length, flags=0):
    a, b = ctypes.c_int64(offset_in), ctypes.c_int64(offset_out)
    call = libc.copy_file_range
    call.restype = ctypes.c_ssize_t
    return _checked(call(fd_in, ctypes.byref(a), fd_out, ctypes.byref(b), ctypes.c_size_t(length), flags))


def copy_all(fd_in, offset_in, fd_out, offset_out, length):
    """copy_file_range may do less than it was asked for, as read and write may."""
    done = 0
    while done < length:
        n = copy_file_range(fd_in, offset_in + done, fd_out, offset_out + done, length - done)
        if n == 0:
            break
        done += n
    return done


AT_EMPTY_PATH, AT_STATX_FORCE_SYNC = 0x1000, 0x2000
STATX_TYPE, STATX_MODE, STATX_NLINK = 1, 2, 4


def _statx(fd, flags, mask):
    found = ctypes.create_string_buffer(256)
    _checked(libc.statx(fd, b"", AT_EMPTY_PATH | flags, mask, found))
    return found


def permissions_alone(fd):
    """As statx(2) tells who asks for the mode and nothing else."""
    return oct(ctypes.c_uint16.from_buffer(_statx(fd, 0, STATX_TYPE | STATX_MODE), 28).value)


def links_asked_anew(fd):
    return ctypes.c_uint32.from_buffer(_statx(fd, AT_STATX_FORCE_SYNC, STATX_NLINK), 16).value


MAX_HANDLE_BYTES = 128


def name_to_handle(path):
    """The handle, as open_by_handle takes it."""
    handle = ctypes.create_string_buffer(8 + MAX_HANDLE_BYTES)
    ctypes.c_uint32.from_buffer(handle).value = MAX_HANDLE_BYTES
    mount = ctypes.c_int()
    _checked(libc.name_to_handle_at(AT_FDCWD, os.fsencode(path), handle, ctypes.byref(mount), 0))
    return handle.raw


def open_by_handle(mount_fd, handle, flags):
    return _checked(libc.open_by_handle_at(mount_fd, ctypes.create_string_buffer(handle, len(handle)), flags | os.O_CLOEXEC))


def name_of(number):
    if number == errno.EOPNOTSUPP:  # the same number as ENOTSUP
        return "EOPNOTSUPP"
    return errno.errorcode.get(number, str(number))


class Trace:
    """`dir` is the case's own directory; `do` tries something, `see` notes a value."""

    def __init__(self, directory, hooks=None):
        self.dir = directory
        self.entries = []  # (label, outcome)
        self.hooks = hooks or {}

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def see(self, label, value):
        self.entries.append((label, repr(value)))
        return value

    def do(self, label, fn, *args, **kwargs):
        """Notes "ok" or the error's name. Gives what fn gave, None after an error."""
        try:
            value = fn(*args, **kwargs)
        except OSError as e:
            self.entries.append((label, name_of(e.errno)))
            return None
        self.entries.append((label, "ok"))
        return True if value is None else value

    def get(self, label, fn, *args, **kwargs):
        """As `do`, but notes the value too."""
        try:
            value = fn(*args, **kwargs)
        except OSError as e:
            self.entries.append((label, name_of(e.errno)))
            return None
        self.entries.append((label, repr(value)))
        return value

    def hook(self, name):
        """Something that happens to the filesystem under test alone, such as a restart of its server."""
        if name in self.hooks:
            self.hooks[name]()

    def file(self, name, content=b"", mode=0o644):
        path = self.path(name)
        fd = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, mode)
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(fd, view):]
            os.fchmod(fd, mode)
        finally:
            os.close(fd)
        return path

    def content(self, label, name):
        def read():
            with open(self.path(name), "rb") as f:
                return f.read()
        return self.get(label, read)

    def mode(self, label, name):
        return self.get(label, lambda: oct(os.lstat(self.path(name)).st_mode))

    def user(self, label, fn, uid=1000, gid=1000, groups=()):
        """fn(trace) as somebody else, in a child; what it notes is noted here."""
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.setgroups(list(groups))
                os.setgid(gid)
                os.setuid(uid)
                inner = Trace(self.dir)
                fn(inner)
                with os.fdopen(write_end, "wb") as out:
                    pickle.dump(inner.entries, out)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(write_end)
        with os.fdopen(read_end, "rb") as source:
            data = source.read()
        _, status = os.waitpid(child, 0)
        if status != 0:
            raise AssertionError(f"{label}: the child failed")
        for inner_label, outcome in pickle.loads(data):
            self.entries.append((f"{label}: {inner_label}", outcome))
