/* Urgent data: SIGURG to the owner, POLLPRI, MSG_OOB, the mark, and SO_OOBINLINE. */
#include "api.h"

static volatile sig_atomic_t urgent;

static void note(int signal)
{
    (void)signal;
    urgent = 1;
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port);
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
    char text[16];
    int mark = -1;
    CHECK(sigaction(SIGURG, &action, NULL) == 0);
    ready();
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    CHECK(fcntl(fd, F_SETOWN, getpid()) == 0);
    CHECK(fcntl(fd, F_GETOWN) == getpid());
    tell(fd);
    CHECK(polled(fd, POLLPRI) == POLLPRI);
    EVENTUALLY(urgent);
    CHECK(recv(fd, text, sizeof text, 0) == 2 && memcmp(text, "ab", 2) == 0); /* up to the mark */
    CHECK(ioctl(fd, 0x8905 /* SIOCATMARK */, &mark) == 0 && mark == 1);
    CHECK(recv(fd, text, 1, MSG_OOB) == 1 && text[0] == 'c');
    CHECK_ERRNO(recv(fd, text, 1, MSG_OOB), EINVAL);
    recv_all(fd, text, 2);
    CHECK(memcmp(text, "de", 2) == 0);
    int one = 1;
    CHECK(setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &one, sizeof one) == 0);
    tell(fd);
    recv_all(fd, text, 1);
    CHECK(text[0] == 'f');
    CHECK(close(listener) == 0);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    await(fd);
    CHECK(send(fd, "abc", 3, MSG_OOB) == 3);
    usleep(50000);
    CHECK(send(fd, "de", 2, 0) == 2);
    await(fd);
    CHECK(send(fd, "f", 1, MSG_OOB) == 1);
    await_end(fd);
}
