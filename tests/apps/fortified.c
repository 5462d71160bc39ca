/* The checked forms that the compiler calls with _FORTIFY_SOURCE: they work, and an overflow still ends the program. */
#include "check.h"
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* The compiler must know the buffer's size, and must not know the length's. */
static volatile size_t length = 4;

int main(int count, char **arguments)
{
    int pair[2];
    char bytes[4];
    struct pollfd polls[1];
    tcp_pair(pair);
    polls[0] = (struct pollfd){.fd = pair[1], .events = POLLIN};
    CHECK(send(pair[0], "abcdefghijkl", 12, 0) == 12);
    CHECK(poll(polls, length - 3, 1000) == 1 && polls[0].revents == POLLIN);
    struct timespec second = {.tv_sec = 1};
    CHECK(ppoll(polls, length - 3, &second, NULL) == 1);
    CHECK(read(pair[1], bytes, length) == 4 && memcmp(bytes, "abcd", 4) == 0);
    CHECK(recv(pair[1], bytes, length, 0) == 4 && memcmp(bytes, "efgh", 4) == 0);
    CHECK(recvfrom(pair[1], bytes, length, 0, NULL, NULL) == 4 && memcmp(bytes, "ijkl", 4) == 0);

    struct rlimit none = {0};
    setrlimit(RLIMIT_CORE, &none);
    for (int how = 0; how < 4; how++) {
        pid_t child = fork();
        if (child == 0) {
            close(2);
            length = 5;
            switch (how) {
            case 0: read(pair[1], bytes, length); break;
            case 1: recv(pair[1], bytes, length, 0); break;
            case 2: recvfrom(pair[1], bytes, length, 0, NULL, NULL); break;
            case 3: poll(polls, length, 0); break;
            }
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
    return 0;
}
