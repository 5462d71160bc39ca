/* Two processes on epoll that exchange echoes over many connections of this host: `sdp_loops SERVER PATIENCE`.
 *
 * The server is `alone`, one thread; `shared`, three that share a set (EPOLLONESHOT); or `handed`, one thread that only
 * waits and one that only works, and asks anew while the other one sleeps. Half of the client's connections are
 * registered once (EPOLLET), the others by EPOLL_CTL_DEL and EPOLL_CTL_ADD for each change; and it uses connections that
 * its set has not reported. Every byte is checked. Exit status 1: nothing came for PATIENCE milliseconds. Prints how
 * many segments the client has. */
#include "check.h"
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/wait.h>

enum { CONNECTIONS = 40, ROUNDS = 300, MOST = 300000 };
static const int LENGTHS[] = {1, 60, 300, 1, 9000, 2, MOST};

static int set, listener, patience, handing[2];
static unsigned once;

static void ask(int operation, int fd, unsigned events, void *data)
{
    struct epoll_event event = {.events = events, .data.ptr = data};
    CHECK(epoll_ctl(set, operation, fd, &event) == 0);
}

/* ---- the server ---- */

struct echo {
    int fd, held, sent;
    unsigned asked;
    char bytes[65536];
};

static void answer(struct echo *echo)
{
    if (echo->held == 0) {
        ssize_t count = recv(echo->fd, echo->bytes, sizeof echo->bytes, MSG_DONTWAIT);
        if (count == 0) {
            close(echo->fd);
            free(echo);
            return;
        }
        CHECK(count > 0 || errno == EAGAIN);
        echo->held = count > 0 ? count : 0;
        echo->sent = 0;
    }
    while (echo->sent < echo->held) {
        ssize_t count = send(echo->fd, echo->bytes + echo->sent, echo->held - echo->sent, MSG_DONTWAIT);
        if (count < 0)
            break;
        echo->sent += count;
    }
    if (echo->sent == echo->held)
        echo->held = 0;
    unsigned wanted = echo->held ? EPOLLOUT : EPOLLIN;
    if (once || wanted != echo->asked)
        ask(EPOLL_CTL_MOD, echo->fd, wanted | once, echo);
    echo->asked = wanted;
}

/* One event: of a connection, or of the listener. */
static void handle(struct echo *echo)
{
    if (echo) {
        answer(echo);
        return;
    }
    echo = calloc(1, sizeof *echo);
    CHECK(echo != NULL);
    echo->fd = accept(listener, NULL, NULL);
    CHECK(echo->fd >= 0);
    echo->asked = EPOLLIN;
    ask(EPOLL_CTL_MOD, listener, EPOLLIN | EPOLLONESHOT, NULL);
    ask(EPOLL_CTL_ADD, echo->fd, EPOLLIN | once, echo);
}

static void *serve(void *unused)
{
    for (;;) {
        struct epoll_event events[8];
        int count = epoll_wait(set, events, once ? 1 : 8, -1);
        for (int i = 0; i < count; i++) {
            if (handing[1])
                CHECK(write(handing[1], &events[i].data.ptr, sizeof(void *)) == sizeof(void *));
            else
                handle(events[i].data.ptr);
        }
    }
    return unused;
}

static void *work(void *unused)
{
    struct echo *echo;
    while (read(handing[0], &echo, sizeof echo) == sizeof echo)
        handle(echo);
    return unused;
}

static void start(void *(*thread)(void *))
{
    pthread_t started;
    CHECK(pthread_create(&started, NULL, thread, NULL) == 0);
}

/* ---- the client ---- */

struct asker {
    int fd, round, sent, received, stays;
    unsigned asked;
};

static int left = CONNECTIONS;

static char byte(const struct asker *asker, int at)
{
    return asker->fd * 7 + asker->round * 3 + at + at / 251;
}

static int length(const struct asker *asker)
{
    return LENGTHS[asker->round % (sizeof LENGTHS / sizeof *LENGTHS)];
}

static void want(struct asker *asker, unsigned events)
{
    if (asker->stays || asker->asked == events) {
        return;
    }
    if (asker->asked)
        CHECK(epoll_ctl(set, EPOLL_CTL_DEL, asker->fd, NULL) == 0);
    if (events)
        ask(EPOLL_CTL_ADD, asker->fd, events, asker);
    asker->asked = events;
}

/* Sends what is left of the round; true: all. */
static int send_rest(struct asker *asker)
{
    static char bytes[MOST];
    int whole = length(asker);
    if (asker->sent == whole)
        return 1;
    for (int at = asker->sent; at < whole; at++)
        bytes[at] = byte(asker, at);
    ssize_t count = send(asker->fd, bytes + asker->sent, whole - asker->sent, MSG_DONTWAIT);
    CHECK(count > 0 || errno == EAGAIN);
    asker->sent += count > 0 ? count : 0;
    return asker->sent == whole;
}

static void go_on(struct asker *asker)
{
    static char bytes[MOST];
    while (asker->round < ROUNDS) {
        int is_sent = send_rest(asker);
        ssize_t count = recv(asker->fd, bytes, length(asker) - asker->received, MSG_DONTWAIT);
        if (count < 0) {
            CHECK(errno == EAGAIN);
            want(asker, is_sent ? EPOLLIN : EPOLLIN | EPOLLOUT);
            return;
        }
        CHECK(count > 0);
        for (int i = 0; i < count; i++)
            CHECK(bytes[i] == byte(asker, asker->received + i));
        asker->received += count;
        if (asker->received < length(asker))
            continue;
        asker->round++;
        asker->sent = asker->received = 0;
        left -= asker->round == ROUNDS;
        if (!asker->stays) {
            want(asker, asker->round < ROUNDS ? EPOLLOUT : 0);
            return;
        }
    }
}

static int segments(void)
{
    char line[512];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps))
        count += strstr(line, "sidestep-connection") != NULL;
    fclose(maps);
    return count;
}

static int client(const struct sockaddr_in *server)
{
    static struct asker askers[CONNECTIONS];
    for (int i = 0; i < CONNECTIONS; i++) {
        askers[i].fd = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(connect(askers[i].fd, (const struct sockaddr *)server, sizeof *server) == 0);
        want(&askers[i], i % 2 ? EPOLLIN | EPOLLOUT | EPOLLET : EPOLLOUT);
        askers[i].stays = i % 2;
    }
    while (left > 0) {
        struct epoll_event events[16];
        int count = epoll_wait(set, events, 16, patience);
        if (count <= 0) {
            fprintf(stderr, "stands still with %d of %d\n", left, CONNECTIONS);
            return 1;
        }
        for (int i = 0; i < count; i++) {
            struct asker *asker = events[i].data.ptr;
            go_on(asker);
            /* Beside the set: this hears of what the set waits for. */
            go_on(&askers[(asker - askers + 1) % CONNECTIONS]);
        }
    }
    printf("%d\n", segments());
    return 0;
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    int is_shared = strcmp(argv[1], "shared") == 0, is_handed = strcmp(argv[1], "handed") == 0;
    once = is_shared || is_handed ? EPOLLONESHOT : 0;
    patience = atoi(argv[2]);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, CONNECTIONS) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    pid_t child = fork();
    /* As nginx does. */
    CHECK(clearenv() == 0);
    set = epoll_create1(0);
    CHECK(child >= 0 && set >= 0);
    if (child == 0)
        return client(&address);
    ask(EPOLL_CTL_ADD, listener, EPOLLIN | EPOLLONESHOT, NULL);
    if (is_handed) {
        CHECK(pipe(handing) == 0);
        start(work);
    }
    for (int i = 0; i < (is_shared ? 3 : 1); i++)
        start(serve);
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}
