/* Calls that C declares with "...": the third argument must arrive, and must not be needed. */
#include "check.h"
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

int main(void)
{
    int pair[2];
    tcp_pair(pair);

    int flags = fcntl(pair[0], F_GETFL);
    CHECK(flags >= 0 && !(flags & O_NONBLOCK));
    CHECK(fcntl(pair[0], F_SETFL, flags | O_NONBLOCK) == 0);
    CHECK(fcntl(pair[0], F_GETFL) & O_NONBLOCK);
    int copy = fcntl(pair[0], F_DUPFD_CLOEXEC, 100);
    CHECK(copy >= 100 && fcntl(copy, F_GETFD) == FD_CLOEXEC);
    CHECK(close(copy) == 0);
    CHECK((copy = fcntl(pair[0], F_DUPFD, 50)) >= 50 && fcntl(copy, F_GETFD) == 0);
    CHECK(close(copy) == 0);
    CHECK(fcntl(copy, F_GETFD) == -1 && errno == EBADF);

    int off = 0, ready = -1;
    CHECK(ioctl(pair[0], FIONBIO, &off) == 0 && !(fcntl(pair[0], F_GETFL) & O_NONBLOCK));
    CHECK(send(pair[1], "four", 4, 0) == 4);
    char four[4];
    CHECK(recv(pair[0], four, 4, MSG_PEEK | MSG_WAITALL) == 4);
    CHECK(ioctl(pair[0], FIONREAD, &ready) == 0 && ready == 4);

    umask(0);
    char path[] = "/tmp/sidestep-variadics-XXXXXX";
    CHECK(mkdtemp(path) != NULL && chdir(path) == 0);
    int file = open("a", O_CREAT | O_RDWR | O_CLOEXEC, 0642);
    struct stat status;
    CHECK(file >= 0 && fstat(file, &status) == 0 && (status.st_mode & 07777) == 0642);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    CHECK(fcntl(file, F_SETLK, &lock) == 0);
    CHECK(close(file) == 0);
    CHECK((file = open("a", O_RDONLY)) >= 0 && close(file) == 0);
    CHECK((file = openat(AT_FDCWD, "b", O_CREAT | O_WRONLY, 0600)) >= 0 && close(file) == 0);
    CHECK(unlink("a") == 0 && unlink("b") == 0 && chdir("/") == 0 && rmdir(path) == 0);

    CHECK(syscall(SYS_getpid) == getpid());
    void *page = (void *)syscall(SYS_mmap, NULL, 4096L, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1L, 0L);
    CHECK(page != MAP_FAILED && munmap(page, 4096) == 0);
    CHECK(syscall(SYS_write, pair[0], "raw", 3) == 3);
    CHECK(syscall(SYS_read, pair[1], four, 4) == 3 && memcmp(four, "raw", 3) == 0);
    CHECK(syscall(SYS_close, -1) == -1 && errno == EBADF);

    pid_t child = fork();
    if (child == 0) {
        char *environment[] = {"CODE=7", NULL};
        execle("/bin/sh", "sh", "-c", "exit $((CODE + $1 + $2 + $3 + $4))", "0", "1", "2", "3", "4", NULL, environment);
        _exit(1);
    }
    int ended;
    CHECK(waitpid(child, &ended, 0) == child && WIFEXITED(ended) && WEXITSTATUS(ended) == 17);

    errno = ERANGE;
    CHECK(passes(pair[0], pair[1]) == 0 || errno == ERANGE);
    return 0;
}
