/* SO_REUSEPORT: several listeners of one process, and one of each of several processes, share the clients of a port; those
 * that stay serve all of them when one is closed. */
#include "api.h"

#define CLIENTS 40
#define WORKERS 2

static int listening(const char *address, int port)
{
    struct sockaddr_in name = at(address, port);
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) == 0);
    CHECK(bind(fd, NAME(name)) == 0 && listen(fd, 64) == 0);
    return fd;
}

static void serve(int listener)
{
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    await(fd);
    tell(fd);
    await_end(fd);
    CHECK(close(fd) == 0);
}

/* Until the pipe ends; how many it served. */
static int work(int listener, int end)
{
    struct pollfd fds[2] = {{.fd = listener, .events = POLLIN}, {.fd = end, .events = POLLIN}};
    for (int count = 0;; count++) {
        CHECK(poll(fds, 2, PATIENCE_MS) > 0);
        if (fds[1].revents != 0)
            return count;
        serve(listener);
    }
}

void server(struct place place)
{
    int control = tcp_listening(place.address, place.port);
    struct pollfd fds[2] = {{.fd = listening(place.address, place.port + 1), .events = POLLIN},
                            {.fd = listening(place.address, place.port + 1), .events = POLLIN}};
    int counts[2] = {0}, pipes[2], begun[2], status;
    char byte;
    ready();
    int fd = accept(control, NULL, NULL);
    CHECK(fd >= 0);
    tell(fd);
    for (int served = 0; served < CLIENTS; served++) {
        CHECK(poll(fds, 2, PATIENCE_MS) > 0);
        int which = fds[0].revents != 0 ? 0 : 1;
        serve(fds[which].fd);
        counts[which]++;
    }
    CHECK(counts[0] > 0 && counts[1] > 0);
    CHECK(close(fds[1].fd) == 0);
    tell(fd);
    for (int served = 0; served < CLIENTS; served++)
        serve(fds[0].fd);
    CHECK(close(fds[0].fd) == 0);
    /* A process each; the connection from the client stays the parent's. */
    CHECK(pipe(pipes) == 0 && pipe(begun) == 0);
    pid_t workers[WORKERS];
    for (int i = 0; i < WORKERS; i++)
        if ((workers[i] = fork()) == 0) {
            close(pipes[1]);
            int own = listening(place.address, place.port + 2);
            CHECK(write(begun[1], "!", 1) == 1);
            _exit(work(own, pipes[0]));
        }
    for (int i = 0; i < WORKERS; i++)
        CHECK(read(begun[0], &byte, 1) == 1);
    tell(fd);
    await_end(fd);
    close(pipes[1]);
    int sum = 0;
    for (int i = 0; i < WORKERS; i++) {
        CHECK(waitpid(workers[i], &status, 0) == workers[i] && WIFEXITED(status));
        CHECK(WEXITSTATUS(status) > 0);
        sum += WEXITSTATUS(status);
    }
    CHECK(sum == CLIENTS);
}

void client(struct place place)
{
    int control = tcp_connected(place.address, place.port);
    for (int round = 0; round < 3; round++) {
        await(control);
        for (int i = 0; i < CLIENTS; i++) {
            int fd = tcp_connected(place.address, round < 2 ? place.port + 1 : place.port + 2);
            tell(fd);
            await(fd);
            close(fd);
        }
    }
}
