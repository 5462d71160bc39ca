/* A program lets itself make few system calls (seccomp), and is killed for any other: what it does with its sockets then are
 * those that it says, also when it ends. */
#include "api.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { PINGS = 1000, AFTER = 30 };

#define ALLOW(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void few_calls(void)
{
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(sendto), ALLOW(recvfrom), ALLOW(poll), ALLOW(write), ALLOW(accept4), ALLOW(accept), ALLOW(close),
        ALLOW(socket), ALLOW(connect), ALLOW(rt_sigreturn), ALLOW(exit_group), ALLOW(restart_syscall),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog all = {.len = sizeof program / sizeof *program, .filter = program};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &all) == 0);
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port), udp = udp_bound(place.address, place.port);
    ready();
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    for (int i = 0; i < PINGS; i++) {
        await(fd);
        tell(fd);
    }
    few_calls();
    tell(fd);
    for (int i = 0; i < AFTER; i++) {
        await(fd);
        tell(fd);
    }
    char byte;
    CHECK(recv(udp, &byte, 1, 0) == 1);
    int other = accept(listener, NULL, NULL);
    CHECK(other >= 0);
    await(other);
    tell(other);
    CHECK(close(other) == 0);
    await_end(fd);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    struct sockaddr_in name = at(place.address, place.port);
    for (int i = 0; i < PINGS; i++) {
        tell(fd);
        await(fd);
    }
    few_calls();
    await(fd);
    for (int i = 0; i < AFTER; i++) {
        tell(fd);
        await(fd);
    }
    int udp = socket(AF_INET, SOCK_DGRAM, 0), other = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(udp >= 0 && other >= 0);
    CHECK(sendto(udp, "x", 1, 0, NAME(name)) == 1);
    CHECK(connect(other, NAME(name)) == 0);
    tell(other);
    await(other);
    await_end(other);
}
