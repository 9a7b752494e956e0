/* Preloaded: lets the k-th system call of chosen kinds fail, be cut short, or be the process's last. Only calls on files below
   chosen folders count, whoever makes them: Python, SQLite, NumPy, a library in Rust. Idle until faults_arm() is called. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WRITE, SYNC, RENAME, READ, OPEN, UNLINK, TRUNCATE, MKDIR, MAP, KINDS }; /* server.py has the same order */
enum { PASS, FAIL, SHORT, KILL };

static char folder[PATH_MAX]; /* what lies below it counts; "": nothing does */
static long *counts;          /* shared with the parent: calls of each kind, of chosen kinds, faults */
static long chosen, at, how, error, sticky;

void faults_arm(const char *below, long *shared, long kinds, long k, long mode, long code, long stays) {
    counts = shared, chosen = kinds, at = k, how = mode, error = code, sticky = stays;
    snprintf(folder, sizeof folder, "%s", below);
}

static int is_below(const char *path) {
    size_t length = strlen(folder);
    return !strncmp(path, folder, length) && (path[length] == '/' || !path[length]);
}

static int link_is_below(const char *link) {
    char path[PATH_MAX];
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_below(path);
}

static int fd_is_below(int fd) {
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return link_is_below(link);
}

static int path_is_below(int at_fd, const char *path) {
    if (path[0] == '/') return is_below(path);
    return at_fd == AT_FDCWD ? link_is_below("/proc/self/cwd") : fd_is_below(at_fd);
}

/* What becomes of this call. */
static int fate(int kind, int counted) {
    if (!counted) return PASS;
    __atomic_add_fetch(&counts[kind], 1, __ATOMIC_SEQ_CST);
    if (!(chosen >> kind & 1)) return PASS;
    long number = __atomic_add_fetch(&counts[KINDS], 1, __ATOMIC_SEQ_CST);
    if (!at || number < at || (number > at && !sticky)) return PASS;
    __atomic_add_fetch(&counts[KINDS + 1], 1, __ATOMIC_SEQ_CST);
    if (how == KILL && kind != WRITE) raise(SIGKILL);
    errno = error;
    return how;
}

#define FATE(kind, below) int kept_errno = errno, what = folder[0] ? fate(kind, below) : PASS; if (what == PASS) errno = kept_errno
#define REAL(name) static __typeof__(name) *real; if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

/* Half of it is written, and then nothing more fits; or then the process is killed. */
#define WRITES(name, parameters, size, whole, half) ssize_t name parameters { \
    REAL(name); FATE(WRITE, fd_is_below(fd)); \
    if (what == PASS) return whole; \
    if (what == FAIL || size < 2) { if (what == KILL) raise(SIGKILL); return -1; } \
    ssize_t written = half; \
    if (what == KILL) raise(SIGKILL); \
    how = FAIL, sticky = 1; \
    return written; }

WRITES(write, (int fd, const void *from, size_t size), size, real(fd, from, size), real(fd, from, size / 2))
WRITES(pwrite, (int fd, const void *from, size_t size, off_t to), size, real(fd, from, size, to), real(fd, from, size / 2, to))
WRITES(pwrite64, (int fd, const void *from, size_t size, off64_t to), size, real(fd, from, size, to), real(fd, from, size / 2, to))

/* A read that is cut short is no error: the rest comes with the next one. */
#define READS(name, parameters, size, whole, half) ssize_t name parameters { \
    REAL(name); FATE(READ, fd_is_below(fd)); \
    if (what == FAIL) return -1; \
    return what == SHORT && size > 1 ? half : whole; }

READS(read, (int fd, void *to, size_t size), size, real(fd, to, size), real(fd, to, size / 2))
READS(pread, (int fd, void *to, size_t size, off_t from), size, real(fd, to, size, from), real(fd, to, size / 2, from))
READS(pread64, (int fd, void *to, size_t size, off64_t from), size, real(fd, to, size, from), real(fd, to, size / 2, from))

/* C streams, as NumPy has them, call the kernel from within libc, where nothing is interposed. They know no short reads. */
size_t fread(void *to, size_t size, size_t number, FILE *file) {
    REAL(fread); FATE(READ, fd_is_below(fileno(file)));
    return what == FAIL ? 0 : real(to, size, number, file);
}
size_t fwrite(const void *from, size_t size, size_t number, FILE *file) {
    REAL(fwrite); FATE(WRITE, fd_is_below(fileno(file)));
    if (what == KILL) raise(SIGKILL);
    return what == PASS ? real(from, size, number, file) : 0;
}

/* Counted and not done, for no scene cuts the power, and a disk takes milliseconds. What is no open file is still an error. */
#define SYNCS(name) int name(int fd) { \
    FATE(SYNC, fd_is_below(fd)); \
    return what == PASS && fcntl(fd, F_GETFD) >= 0 ? 0 : -1; }

SYNCS(fsync)
SYNCS(fdatasync)

#define OTHER(type, failed, kind, name, parameters, below, call) type name parameters { \
    REAL(name); FATE(kind, below); \
    return what == PASS ? real call : failed; }

OTHER(int, -1, TRUNCATE, ftruncate, (int fd, off_t size), fd_is_below(fd), (fd, size))
OTHER(int, -1, TRUNCATE, ftruncate64, (int fd, off64_t size), fd_is_below(fd), (fd, size))
OTHER(int, -1, RENAME, rename, (const char *from, const char *to), path_is_below(AT_FDCWD, to), (from, to))
OTHER(int, -1, RENAME, renameat, (int a, const char *from, int b, const char *to), path_is_below(b, to), (a, from, b, to))
OTHER(int, -1, RENAME, renameat2, (int a, const char *from, int b, const char *to, unsigned flags), path_is_below(b, to),
      (a, from, b, to, flags))
OTHER(int, -1, UNLINK, unlink, (const char *path), path_is_below(AT_FDCWD, path), (path))
OTHER(int, -1, UNLINK, unlinkat, (int fd, const char *path, int flags), path_is_below(fd, path), (fd, path, flags))
OTHER(int, -1, UNLINK, rmdir, (const char *path), path_is_below(AT_FDCWD, path), (path))
OTHER(int, -1, MKDIR, mkdir, (const char *path, mode_t mode), path_is_below(AT_FDCWD, path), (path, mode))
OTHER(int, -1, MKDIR, mkdirat, (int fd, const char *path, mode_t mode), path_is_below(fd, path), (fd, path, mode))
OTHER(DIR *, NULL, OPEN, opendir, (const char *path), path_is_below(AT_FDCWD, path), (path))
OTHER(void *, MAP_FAILED, MAP, mmap, (void *to, size_t size, int allow, int flags, int fd, off_t from), fd >= 0 && fd_is_below(fd),
      (to, size, allow, flags, fd, from))
OTHER(void *, MAP_FAILED, MAP, mmap64, (void *to, size_t size, int allow, int flags, int fd, off64_t from), fd >= 0 && fd_is_below(fd),
      (to, size, allow, flags, fd, from))

#define OPENS(name, parameters, fd, call) int name parameters { \
    REAL(name); FATE(OPEN, path_is_below(fd, path)); \
    va_list rest; va_start(rest, flags); mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; va_end(rest); \
    return what == PASS ? real call : -1; }

OPENS(open, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode))
OPENS(open64, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode))
OPENS(openat, (int fd, const char *path, int flags, ...), fd, (fd, path, flags, mode))
OPENS(openat64, (int fd, const char *path, int flags, ...), fd, (fd, path, flags, mode))
