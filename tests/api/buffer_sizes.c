/* SO_RCVBUF and SO_SNDBUF are held to what the host allows: a negative size is all of that, an enormous one no more, and
 * a tiny one the least. What getsockopt tells holds for what waits while nobody reads. TCP_WINDOW_CLAMP below its least
 * is the least. */
#include "api.h"

/* An accelerated socket keeps VMA_RX_BYTES_MIN at least. */
enum { SIZE = 1400, BATCH = 100, VMAS_LEAST = 65536 };

static int sized(int fd, int name, int asked)
{
    CHECK(setsockopt(fd, SOL_SOCKET, name, &asked, sizeof asked) == 0);
    return option(fd, SOL_SOCKET, name);
}

/* What waits at a socket, taken out. */
static long long waiting(int fd)
{
    char data[SIZE];
    long long bytes = 0;
    for (ssize_t count; (count = recv(fd, data, sizeof data, MSG_DONTWAIT)) > 0;)
        bytes += count;
    CHECK(errno == EAGAIN);
    return bytes;
}

/* Twice as much to +1 as its socket has room for, while nobody reads there. */
static void flood(int channel, struct place place, int room)
{
    static char data[SIZE];
    int fd = udp_connected(place.address, place.port + 1);
    for (long long left = 2LL * room; left > 0;) {
        for (int i = 0; i < BATCH; i++, left -= SIZE)
            CHECK(send(fd, data, SIZE, 0) == SIZE);
        tell(channel); /* no faster than the reader's host */
        await(channel);
    }
    CHECK(send(channel, ".", 1, MSG_NOSIGNAL) == 1);
    CHECK(close(fd) == 0);
}

static void bounded(int channel, struct place place, int asked, int least, int most)
{
    int fd = udp_bound(place.address, place.port + 1), room = sized(fd, SO_RCVBUF, asked);
    char byte;
    CHECK(room >= least && room <= most);
    CHECK(send(channel, &room, sizeof room, 0) == sizeof room);
    for (recv_all(channel, &byte, 1); byte != '.'; recv_all(channel, &byte, 1))
        tell(channel);
    long long bytes = waiting(fd);
    CHECK(bytes <= (room > VMAS_LEAST ? room : VMAS_LEAST) + SIZE);
    CHECK(bytes >= room / 8 || bytes == SIZE);
    CHECK(close(fd) == 0);
    tell(channel);
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port), most = sized(listener, SO_RCVBUF, 1 << 30);
    CHECK(most > 0 && sized(listener, SO_RCVBUF, -1) == most);
    ready();
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    bounded(fd, place, 1 << 30, most, most);
    bounded(fd, place, -1, most, most);
    bounded(fd, place, 0, 1, 65536);
    CHECK(close(fd) == 0);

    fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    CHECK(option(fd, SOL_SOCKET, SO_RCVBUF) == most);
    static char data[65536];
    tell(fd);
    int waits = 0;
    EVENTUALLY(ioctl(fd, FIONREAD, &waits) == 0 && waits == sizeof data);
    recv_all(fd, data, sizeof data);
    int clamp = -1;
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, &clamp, sizeof clamp) == 0);
    CHECK(option(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP) <= 4608);
    tell(fd);
    await_end(fd);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port), room;
    for (int i = 0; i < 3; i++) {
        recv_all(fd, &room, sizeof room);
        flood(fd, place, room);
        await(fd);
    }
    await_end(fd);
    CHECK(close(fd) == 0);
    static char data[65536];
    int tiny = socket(AF_INET, SOCK_STREAM, 0);
    int most = sized(tiny, SO_SNDBUF, -1);
    CHECK(most > 65536 && sized(tiny, SO_SNDBUF, 1 << 30) == most);
    CHECK(sized(tiny, SO_SNDBUF, -1) == most);
    struct sockaddr_in name = at(place.address, place.port);
    CHECK(connect(tiny, NAME(name)) == 0);
    await(tiny);
    CHECK(send(tiny, data, sizeof data, MSG_DONTWAIT) == sizeof data);
    await(tiny);
    CHECK(close(tiny) == 0);
}
