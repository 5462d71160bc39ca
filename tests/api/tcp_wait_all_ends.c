/* What ends a receive that waits for all (MSG_WAITALL) when some has come: a handler, even with SA_RESTART; a reset, which
 * the next call tells; the urgent mark. And a message that goes in part is the last that sendmmsg(2) sends. */
#include "api.h"
#include <pthread.h>
#include <sys/syscall.h>

enum { PART = 5, ALL = 10, WARM = 40, HUGE_PART = 8 << 20 };

static pid_t waiting;
static pthread_t main_thread;
static volatile sig_atomic_t handled;

static void count_it(int signal)
{
    (void)signal;
    handled++;
}

/* The thread sleeps, and has taken what was there. */
static void *signal_when_asleep(void *moved)
{
    int fd = *(int *)moved, left;
    EVENTUALLY(state_of(waiting) == 'S' && ioctl(fd, FIONREAD, &left) == 0 && left == 0);
    CHECK(pthread_kill(main_thread, SIGUSR1) == 0);
    return NULL;
}

static void a_handler(int fd)
{
    char text[ALL];
    pthread_t thread;
    struct sigaction action = {.sa_handler = count_it, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    handled = 0;
    await(fd);
    int there;
    EVENTUALLY(ioctl(fd, FIONREAD, &there) == 0 && there == PART);
    CHECK(pthread_create(&thread, NULL, signal_when_asleep, &fd) == 0);
    CHECK(recv(fd, text, ALL, MSG_WAITALL) == PART && handled == 1);
    CHECK(pthread_join(thread, NULL) == 0);
    tell(fd);
    CHECK(recv(fd, text + PART, PART, MSG_WAITALL) == PART && memcmp(text, "abcdefghij", ALL) == 0);
    await_end(fd);
}

static void *signal_and_ask(void *moved)
{
    EVENTUALLY(state_of(waiting) == 'S');
    CHECK(pthread_kill(main_thread, SIGUSR1) == 0);
    EVENTUALLY(handled == 1);
    tell(*(int *)moved);
    return NULL;
}

/* Before anything came SA_RESTART holds, and what ran then ends nothing later. */
static void no_handler_before(int fd)
{
    char text[ALL];
    pthread_t thread;
    handled = 0;
    CHECK(pthread_create(&thread, NULL, signal_and_ask, &fd) == 0);
    CHECK(recv(fd, text, ALL, MSG_WAITALL) == ALL && memcmp(text, "abcdefghij", ALL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    await_end(fd);
}

static void a_reset(int fd)
{
    char text[ALL];
    CHECK(recv(fd, text, ALL, MSG_WAITALL) == PART && memcmp(text, "abcde", PART) == 0);
    CHECK_ERRNO(recv(fd, text, ALL, MSG_WAITALL), ECONNRESET);
    CHECK(recv(fd, text, ALL, MSG_WAITALL) == 0);
}

static void the_mark(int fd)
{
    char text[ALL];
    CHECK(recv(fd, text, ALL, MSG_WAITALL) == PART && memcmp(text, "abcde", PART) == 0);
    int is_at_mark = 0;
    EVENTUALLY(ioctl(fd, SIOCATMARK, &is_at_mark) == 0 && is_at_mark);
    CHECK(recv(fd, text, PART, MSG_WAITALL) == PART && memcmp(text, "fghij", PART) == 0);
    await_end(fd);
}

static char at_place(size_t i)
{
    return (char)(i ^ i >> 8 ^ i >> 16);
}

static void several(int fd)
{
    char *big = malloc(3 * (size_t)HUGE_PART);
    struct iovec pieces[3];
    struct mmsghdr messages[3] = {0};
    CHECK(big != NULL);
    for (size_t i = 0; i < 3 * (size_t)HUGE_PART; i++)
        big[i] = at_place(i);
    for (int i = 0; i < 3; i++) {
        pieces[i] = (struct iovec){.iov_base = big + i * (size_t)HUGE_PART, .iov_len = HUGE_PART};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &pieces[i], .msg_iovlen = 1};
    }
    int sent = sendmmsg(fd, messages, 3, MSG_DONTWAIT | MSG_NOSIGNAL);
    CHECK(sent >= 1 && sent <= 3);
    for (int i = 0; i < sent - 1; i++)
        CHECK(messages[i].msg_len == HUGE_PART);
    free(big);
}

static void (*const CASES[])(int fd) = {a_handler, no_handler_before, a_reset, the_mark, several};
enum { COUNT = sizeof CASES / sizeof *CASES };

/* Two ends of one host that meet and part all the time, which tests make them do, may read over the mark, or lose the
 * error (docs/design/memory.md). */
static int is_left_out(struct place place, int i)
{
    int parts = getenv("SIDESTEP_MOVE_EVERY") != NULL && strcmp(place.address, place.client) == 0;
    return parts && (CASES[i % COUNT] == the_mark || CASES[i % COUNT] == a_reset);
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port);
    waiting = (pid_t)syscall(SYS_gettid);
    main_thread = pthread_self();
    ready();
    /* Twice: of a connection that is new, and of one that has moved where it does. */
    for (int i = 0; i < 2 * COUNT; i++) {
        if (is_left_out(place, i))
            continue;
        int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0);
        answers(fd, i < COUNT ? 0 : WARM);
        CASES[i % COUNT](fd);
        CHECK(close(fd) == 0);
    }
}

void client(struct place place)
{
    for (int i = 0; i < 2 * COUNT; i++) {
        if (is_left_out(place, i))
            continue;
        int fd = tcp_connected(place.address, place.port);
        struct linger at_once = {.l_onoff = 1};
        static char text[65536];
        ssize_t got;
        pings(fd, i < COUNT ? 0 : WARM);
        switch (i % COUNT) {
        case 0:
            tell(fd);
            send_all(fd, "abcde", PART);
            await(fd);
            send_all(fd, "fghij", PART);
            break;
        case 1:
            await(fd);
            send_all(fd, "abcde", PART);
            usleep(20000);
            send_all(fd, "fghij", PART);
            break;
        case 2:
            send_all(fd, "abcde", PART);
            usleep(50000);
            CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
            break;
        case 3:
            send_all(fd, "abcde", PART);
            usleep(50000);
            CHECK(send(fd, "!", 1, MSG_OOB) == 1);
            usleep(50000);
            send_all(fd, "fghij", PART);
            break;
        default:
            /* As far as it comes it has no hole. */
            for (size_t at = 0; (got = recv(fd, text, sizeof text, 0)) > 0;)
                for (ssize_t i = 0; i < got; i++, at++)
                    CHECK(text[i] == at_place(at));
            CHECK(got == 0);
        }
        CHECK(close(fd) == 0);
    }
}
