"""The machine's paths as os, open, pathlib and glob see them. Everything else goes straight to the real functions."""

from __future__ import annotations

import builtins
import errno
import io
import os
import stat
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from . import hooks
from .paths import Entry, Paths
from .world import UnknownValueError, World

#: In the place of an entry: the real host has it and the machine does not.
HIDDEN = Entry("", 0)

_real: dict[str, Any] = {name: getattr(os, name) for name in ("stat", "lstat", "access", "listdir", "scandir", "open")}
_real_open: Any = io.open


class Files:
    """The patched functions of one machine. Each takes what the real one takes: paths, bytes, PathLike, descriptors."""

    def __init__(self, world: World, paths: Paths) -> None:
        self.world, self.paths = world, paths
        self.roots, self.parents = paths.roots, paths.parents

    def find(self, path: Any) -> Entry | None:
        """What the machine says of a path: an entry, HIDDEN, or None where it says nothing."""
        if not isinstance(path, str):
            path = _text(path)
            if path is None:
                return None
        if not path.startswith(self.roots):
            return None
        if "//" in path or "/." in path or path.endswith("/"):
            path = os.path.normpath(path)
        entry = self.paths.entries.get(path)
        if entry is None and path.startswith(self.paths.hidden):
            return HIDDEN
        return entry

    def stat(self, path: Any, **options: Any) -> Any:
        entry = self.find(path)
        if entry is None or options.get("dir_fd") is not None:
            return _real["stat"](path, **options)
        return _real_or_own(entry, path, _real["stat"], options)

    def lstat(self, path: Any, **options: Any) -> Any:
        entry = self.find(path)
        if entry is None or options.get("dir_fd") is not None:
            return _real["lstat"](path, **options)
        return _real_or_own(entry, path, _real["lstat"], options)

    def access(self, path: Any, mode: int, **options: Any) -> bool:
        entry = self.find(path)
        if entry is None or options.get("dir_fd") is not None or _exists(entry):
            return bool(_real["access"](path, mode, **options))
        if entry is HIDDEN:
            return False
        executable = entry.is_folder or "/bin/" in entry.path
        return not (mode & os.W_OK and not entry.is_device) and not (mode & os.X_OK and not executable)

    def listdir(self, path: Any = ".") -> list[Any]:
        entry = self.find(path)
        if entry is None and not self._is_parent(path):
            return list(_real["listdir"](path))
        folder = os.path.normpath(_text(path) or "")
        names = self.paths.listing(folder, self._real_names(entry, path))
        return [os.fsencode(name) for name in names] if isinstance(os.fspath(path), bytes) else names

    def scandir(self, path: Any = ".") -> Any:
        entry = self.find(path)
        if entry is None and not self._is_parent(path):
            return _real["scandir"](path)
        folder = os.path.normpath(_text(path) or "")
        real = {item.name: item for item in _real["scandir"](folder)} if _exists_real(folder) else {}
        if not real:
            self._real_names(entry, path)  # for its errors
        names = self.paths.listing(folder, list(real))
        return _Listing([real.get(name) or _DirEntry(self, folder, name) for name in names])

    def _is_parent(self, path: Any) -> bool:
        text = _text(path)
        return text is not None and os.path.normpath(text) in self.parents

    def _real_names(self, entry: Entry | None, path: Any) -> list[str]:
        if entry is HIDDEN:
            raise _missing(path)
        if entry is not None and not entry.is_folder:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        if entry is not None and not _exists(entry):
            return []
        return [os.fsdecode(name) for name in _real["listdir"](path)]

    def os_open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        entry = self.find(path) if dir_fd is None else None
        if entry is None or (entry.content is None and _exists(entry)):
            return int(_real["open"](path, flags, mode, dir_fd=dir_fd))
        sys.audit("open", path, None, flags)
        return self._descriptor(entry, path, flags)

    def _descriptor(self, entry: Entry, path: Any, flags: int) -> int:
        """A descriptor in the place of the machine's file or node. A node opens and does nothing, as /dev/null."""
        if entry is HIDDEN:
            raise _missing(path)
        if entry.is_folder:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if entry.is_device:
            return int(_real["open"](os.devnull, flags))
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        if entry.content is None:
            raise UnknownValueError(self.world.id, f"host.paths (the content of {entry.path})", "open")
        return _descriptor_of(entry.content())

    def open(self, file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        entry = self.find(file)
        if entry is None or len(args) > 5 or options.get("opener") or (entry.content is None and _exists(entry)):
            return _real_open(file, mode, *args, **options)
        # With an opener the real open() makes the file object: its name, its errors and its audit event are the usual.
        options["opener"] = lambda path, flags: self._descriptor(entry, path, flags)
        return _real_open(file, mode, *args, **options)


def _text(path: Any) -> str | None:
    """A path as text; None for a descriptor and for what is no path."""
    if isinstance(path, int):
        return None
    try:
        return os.fsdecode(path)
    except TypeError:
        return None


def _exists_real(path: str) -> bool:
    try:
        _real["stat"](path)
    except OSError:
        return False
    return True


def _exists(entry: Entry) -> bool:
    """Whether the real host has it as well: then what it says of it holds."""
    return entry is not HIDDEN and _exists_real(entry.path)


def _missing(path: Any) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def _real_or_own(entry: Entry, path: Any, real: Callable[..., Any], options: dict[str, Any]) -> Any:
    if entry is HIDDEN:
        raise _missing(path)
    return real(path, **options) if _exists(entry) else entry.stat()


def _descriptor_of(text: str) -> int:
    """A descriptor from which a text can be read: a file that has no name."""
    descriptor = os.memfd_create("masquerade")
    os.write(descriptor, text.encode())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


class _DirEntry:
    """What os.scandir gives for a path of the machine."""

    def __init__(self, files: Files, folder: str, name: str) -> None:
        self.name, self.path, self._files = name, f"{folder}/{name}", files

    def stat(self, *, follow_symlinks: bool = True) -> Any:
        return self._files.stat(self.path)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return stat.S_ISDIR(self.stat().st_mode)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return stat.S_ISREG(self.stat().st_mode)

    def is_symlink(self) -> bool:
        return False

    def is_junction(self) -> bool:
        return False

    def inode(self) -> int:
        return int(self.stat().st_ino)

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"


class _Listing:
    """An iterator that closes, as os.scandir gives it."""

    def __init__(self, entries: list[Any]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._entries)

    def close(self) -> None:
        self._entries = iter(())

    def __enter__(self) -> _Listing:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def install(files: Files) -> None:
    """Put the functions in the place of the real ones, in os, builtins, io, and where the library holds copies."""
    patched: dict[str, Any] = {}
    for name, method in {**dict.fromkeys(_real, ""), "open": "os_open"}.items():
        patched[name] = _Function(_real[name], getattr(files, method or name), files.roots)
        for capability in (os.supports_fd, os.supports_dir_fd, os.supports_follow_symlinks, os.supports_effective_ids):
            if _real[name] in capability:
                capability.add(patched[name])
        setattr(os, name, patched[name])
    opened = _Function(_real_open, files.open, files.roots)
    builtins.open = io.open = opened

    def pathlib(module: ModuleType) -> None:
        accessor = getattr(module, "_NormalAccessor", None)  # Python 3.10
        for name in ("stat", "listdir", "scandir") if accessor else ():
            setattr(accessor, name, staticmethod(patched[name]))
        if accessor:
            accessor.open = staticmethod(opened)

    def glob(module: ModuleType) -> None:
        globber = getattr(module, "_StringGlobber", None)  # Python 3.13
        if globber:
            globber.lstat, globber.scandir = staticmethod(patched["lstat"]), staticmethod(patched["scandir"])

    hooks.on_import("pathlib", pathlib)
    hooks.on_import("glob", glob)


class _Function:
    """A function in the place of a built-in one: an attribute of a class, it does not turn into a method either."""

    def __init__(self, real: Any, own: Callable[..., Any], roots: tuple[str, ...]) -> None:
        self._real, self._own, self._roots = real, own, roots
        self.__name__ = self.__qualname__ = real.__name__
        self.__doc__ = real.__doc__
        self.__module__ = "io" if real is _real_open else "os"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if args and type(args[0]) is str and not args[0].startswith(self._roots):
            return self._real(*args, **kwargs)  # nearly all calls
        return self._own(*args, **kwargs)

    def __reduce__(self) -> str:
        return str(self.__qualname__)

    def __repr__(self) -> str:
        return repr(self._real)
