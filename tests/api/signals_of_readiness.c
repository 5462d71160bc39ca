/* A program that asks for a signal of its own (F_SETSIG) hears by it which descriptor is ready, and for what; one that is for a
 * thread (F_OWNER_TID) comes to that thread. Also on connections and sockets that have been used before. */
#include "api.h"

enum { SIGNALS = 20, WARM_UP = 40, SHORT = 2 };

/* What waits for this thread, or for the process. */
static int is_pending(const char *whom)
{
    char text[4096] = {0};
    int fd = open("/proc/thread-self/status", O_RDONLY);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0 && close(fd) == 0);
    const char *line = strstr(text, whom);
    CHECK(line != NULL);
    return strtoull(line + strlen(whom), NULL, 16) >> (SIGRTMIN - 1) & 1;
}

static void ask_for_signals(int fd)
{
    struct f_owner_ex owner = {F_OWNER_TID, gettid()};
    CHECK(fcntl(fd, F_SETOWN_EX, &owner) == 0 && fcntl(fd, F_SETSIG, SIGRTMIN) == 0);
    CHECK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC) == 0);
}

/* The next signal that says that the descriptor is readable. */
static void await_readable(int fd)
{
    struct timespec limit = {.tv_sec = PATIENCE_MS / 1000};
    siginfo_t told = {0};
    sigset_t ours;
    CHECK(sigemptyset(&ours) == 0 && sigaddset(&ours, SIGRTMIN) == 0);
    EVENTUALLY(is_pending("SigPnd:") || is_pending("ShdPnd:"));
    CHECK(is_pending("SigPnd:"));
    do {
        CHECK(sigtimedwait(&ours, &told, &limit) == SIGRTMIN);
        CHECK(told.si_fd == fd && (told.si_code == POLL_IN || told.si_code == POLL_OUT));
    } while (told.si_code != POLL_IN);
    CHECK(told.si_band & POLLIN);
}

static void hears(int fd, int warm_up)
{
    struct timespec none = {0};
    sigset_t ours;
    char byte;
    pings(fd, warm_up);
    ask_for_signals(fd);
    for (int i = 0; i < SIGNALS; i++) {
        tell(fd);
        await_readable(fd);
        CHECK(recv(fd, &byte, 1, MSG_DONTWAIT) == 1);
    }
    /* Of room to write, after the last answer. */
    CHECK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_ASYNC) == 0);
    CHECK(sigemptyset(&ours) == 0 && sigaddset(&ours, SIGRTMIN) == 0);
    while (sigtimedwait(&ours, NULL, &none) == SIGRTMIN)
        ;
}

void client(struct place place)
{
    sigset_t ours;
    CHECK(sigemptyset(&ours) == 0 && sigaddset(&ours, SIGRTMIN) == 0 && sigprocmask(SIG_BLOCK, &ours, NULL) == 0);
    for (int round = 0; round < 2; round++) {
        int stream = tcp_connected(place.address, place.port);
        hears(stream, round == 0 ? WARM_UP : SHORT);
        CHECK(close(stream) == 0);
        int talk = udp_connected(place.address, place.port + 1);
        hears(talk, round == 0 ? WARM_UP : SHORT);
        CHECK(close(talk) == 0);
    }
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port), talk = udp_bound(place.address, place.port + 1);
    ready();
    for (int round = 0; round < 2; round++) {
        int count = SIGNALS + (round == 0 ? WARM_UP : SHORT);
        int stream = accept(listener, NULL, NULL);
        CHECK(stream >= 0);
        answers(stream, count);
        await_end(stream);
        CHECK(close(stream) == 0);
        for (int i = 0; i < count; i++) {
            char byte;
            struct sockaddr_in from;
            socklen_t length = sizeof from;
            CHECK(recvfrom(talk, &byte, 1, 0, (struct sockaddr *)&from, &length) == 1);
            CHECK(sendto(talk, &byte, 1, 0, (struct sockaddr *)&from, length) == 1);
        }
    }
}
