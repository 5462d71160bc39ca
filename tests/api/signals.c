/* A signal ends a blocking receive with EINTR, or not at all when its handler was installed with SA_RESTART. */
#include "api.h"

static volatile sig_atomic_t signals;

static void on_alarm(int number)
{
    (void)number;
    signals++;
}

/* Again and again, as the first one may come before the wait; never with 0. */
static void alarm_each(long ms, int flags)
{
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = flags};
    struct itimerval timer = {.it_value = {.tv_usec = ms * 1000}, .it_interval = {.tv_usec = ms * 1000}};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

void server(struct place place)
{
    int fd = tcp_serve_one(place), udp = udp_bound(place.address, place.port + 1);
    char byte;
    struct pollfd one = {.fd = fd, .events = POLLIN};
    alarm_each(50, 0);
    CHECK_ERRNO(recv(fd, &byte, 1, 0), EINTR);
    alarm_each(50, 0);
    CHECK_ERRNO(recv(udp, &byte, 1, 0), EINTR);
    alarm_each(50, SA_RESTART);
    CHECK_ERRNO(poll(&one, 1, PATIENCE_MS), EINTR); /* poll is never restarted */
    CHECK(signals >= 3);
    alarm_each(0, 0);
    tell(fd);
    int before = signals;
    alarm_each(50, SA_RESTART);
    await(fd); /* sent 200 ms from now; signals come in between */
    alarm_each(0, 0);
    CHECK(signals > before);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    await(fd);
    usleep(200000);
    tell(fd);
    await_end(fd);
}
