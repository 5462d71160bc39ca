/* A program that makes, fills and waits on its epoll sets by system calls of its own, past libc, as Rust's rustix and Go
   do, and uses its sockets by libc: it hears of everything, however long a connection lives. */
#include "api.h"
#include <sys/syscall.h>

enum { ROUNDS = 3000 };

static long inline_call(long number, long a, long b, long c, long d)
{
    long result;
    register long fourth __asm__("r10") = d;
    register long fifth __asm__("r8") = 0;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth)
                     : "rcx", "r11", "memory");
    return result;
}

void server(struct place place)
{
    int set = (int)inline_call(SYS_epoll_create1, 0, 0, 0, 0);
    struct epoll_event event = {.events = EPOLLIN};
    char byte;
    CHECK(set >= 0);
    int fd = tcp_serve_one(place);
    CHECK(inline_call(SYS_epoll_ctl, set, EPOLL_CTL_ADD, fd, (long)&event) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(inline_call(SYS_epoll_pwait, set, (long)&event, 1, PATIENCE_MS) == 1);
        CHECK(recv(fd, &byte, 1, 0) == 1);
        CHECK(send(fd, &byte, 1, 0) == 1);
    }
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    pings(fd, ROUNDS);
    await_end(fd);
}
