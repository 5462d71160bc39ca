/* A stream of a mebibyte goes there and back in pieces of odd sizes and stays in order. */
#include "api.h"

#define TOTAL (1 << 20)
#define WINDOW (32 * 1024)

void server(struct place place)
{
    static char buffer[5000];
    int fd = tcp_serve_one(place);
    for (;;) {
        ssize_t count = read(fd, buffer, sizeof buffer);
        CHECK(count >= 0);
        if (count == 0)
            break;
        send_all(fd, buffer, (size_t)count);
    }
    CHECK(close(fd) == 0);
}

void client(struct place place)
{
    static unsigned char sent[TOTAL], back[WINDOW];
    int fd = tcp_connected(place.address, place.port);
    for (int i = 0; i < TOTAL; i++)
        sent[i] = (unsigned char)(i * 7 + (i >> 11));
    for (int done = 0, piece = 1; done < TOTAL; done += piece, piece = piece * 3 % WINDOW + 1) {
        if (piece > TOTAL - done)
            piece = TOTAL - done;
        send_all(fd, sent + done, (size_t)piece);
        recv_all(fd, back, (size_t)piece);
        CHECK(memcmp(sent + done, back, (size_t)piece) == 0);
    }
    CHECK(shutdown(fd, SHUT_WR) == 0);
    await_end(fd);
}
