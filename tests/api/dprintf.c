/* dprintf(3), vdprintf and the checked forms write to the socket: numbers, words, fractions, more than registers hold. */
#include "api.h"
#include <stdarg.h>

extern int __dprintf_chk(int fd, int flag, const char *format, ...);

static int print(int fd, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int result = vdprintf(fd, format, list);
    va_end(list);
    return result;
}

void server(struct place place)
{
    int fd = tcp_serve_one(place);
    static char big[60000];
    CHECK(dprintf(fd, "plain\n") == 6);
    CHECK(dprintf(fd, "%d %s %.2f %c %ld %s %.3f %u %d %s\n", -1, "two", 3.25, '4', 5000000000L, "six", 7.125, 8u, 9, "ten") == 43);
    CHECK(__dprintf_chk(fd, 1, "%s %d %.1f %d %d %d %.1f %d\n", "checked", 1, 2.5, 3, 4, 5, 6.5, 7) == 26);
    CHECK(print(fd, "%d %.1f %s\n", 1, 1.5, "list") == 11);
    CHECK(dprintf(fd, "%*s", (int)sizeof big, "end") == (int)sizeof big);
    CHECK(dprintf(fd, "%s", "") == 0);
    await(fd);
    CHECK_ERRNO(dprintf(-1, "nothing"), EBADF);
    /* Not a socket. */
    int pipes[2];
    char text[16];
    CHECK(pipe(pipes) == 0 && dprintf(pipes[1], "%s %d", "pipe", 42) == 7);
    CHECK(read(pipes[0], text, sizeof text) == 7 && memcmp(text, "pipe 42", 7) == 0);
}

static void reads(int fd, const char *text)
{
    char line[128] = {0};
    recv_all(fd, line, strlen(text));
    CHECK(strcmp(line, text) == 0);
}

void client(struct place place)
{
    static char big[60000];
    int fd = tcp_connected(place.address, place.port);
    reads(fd, "plain\n");
    reads(fd, "-1 two 3.25 4 5000000000 six 7.125 8 9 ten\n");
    reads(fd, "checked 1 2.5 3 4 5 6.5 7\n");
    reads(fd, "1 1.5 list\n");
    recv_all(fd, big, sizeof big);
    for (size_t i = 0; i < sizeof big - 3; i++)
        CHECK(big[i] == ' ');
    CHECK(memcmp(big + sizeof big - 3, "end", 3) == 0);
    tell(fd);
    await_end(fd);
}
