/* A server of three workers that accept from one listener: each tells its process id and echoes. */
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

static void serve(int listener)
{
    for (;;) {
        char text[4096];
        struct pollfd wait = {listener, POLLIN, 0};
        CHECK(poll(&wait, 1, -1) == 1);
        int fd = accept(listener, NULL, NULL);
        if (fd < 0) {
            CHECK(errno == EAGAIN || errno == ECONNABORTED);
            continue;
        }
        int length = snprintf(text, sizeof text, "%d\n", getpid());
        CHECK(fcntl(fd, F_SETFL, 0) == 0);
        CHECK(send(fd, text, (size_t)length, 0) == length);
        ssize_t got;
        while ((got = recv(fd, text, sizeof text, 0)) > 0)
            CHECK(send(fd, text, (size_t)got, MSG_NOSIGNAL) == got);
        close(fd);
    }
}

int main(int count, char **arguments)
{
    CHECK(count == 3);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(arguments[2]))};
    CHECK(inet_pton(AF_INET, arguments[1], &address.sin_addr) == 1);
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    CHECK(listener >= 0 && setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 128) == 0);
    CHECK(fcntl(listener, F_SETFL, O_NONBLOCK) == 0);
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            serve(listener);
    }
    while (wait(NULL) > 0)
        ;
    return 0;
}
