/* A program that catches faults: a call that is given memory which is not there, or no more, is EFAULT and the handler hears
 * nothing of it, as with the kernel's calls. What was to be received from a connection stays. */
#include "api.h"
#include <sys/mman.h>

static volatile sig_atomic_t faults;

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    (void)context;
    faults++;
    _exit(9);
}

static size_t page;

/* A page that was there, one that can only be read, and one behind the end of its file. */
static char *not_there(void)
{
    char *memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && munmap(memory, page) == 0);
    return memory;
}

static char *read_only(void)
{
    char *memory = mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

static char *behind_end(void)
{
    FILE *file = tmpfile();
    char *memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

static void small_things(int fd, int udp, int listener, char *bad)
{
    struct sockaddr_in name;
    socklen_t length = sizeof name;
    char byte = 'x';
    struct iovec piece = {.iov_base = bad, .iov_len = 1};
    struct msghdr message = {.msg_iov = (struct iovec *)bad, .msg_iovlen = 1};
    CHECK_ERRNO(getsockname(fd, (struct sockaddr *)bad, &length), EFAULT);
    CHECK_ERRNO(getpeername(fd, (struct sockaddr *)&name, (socklen_t *)bad), EFAULT);
    CHECK_ERRNO(bind(listener, (struct sockaddr *)bad, sizeof name), EFAULT);
    CHECK_ERRNO(connect(listener, (struct sockaddr *)bad, sizeof name), EFAULT);
    CHECK_ERRNO(getsockopt(fd, SOL_SOCKET, SO_ERROR, bad, &length), EFAULT);
    CHECK_ERRNO(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, bad, sizeof(int)), EFAULT);
    CHECK_ERRNO(ioctl(fd, FIONREAD, bad), EFAULT);
    CHECK_ERRNO(sendto(udp, &byte, 1, 0, (struct sockaddr *)bad, sizeof name), EFAULT);
    CHECK_ERRNO(sendmsg(fd, (struct msghdr *)bad, 0), EFAULT);
    CHECK_ERRNO(sendmsg(udp, &message, 0), EFAULT);
    CHECK_ERRNO(recvmsg(fd, &message, 0), EFAULT);
    CHECK_ERRNO(writev(fd, &piece, 1), EFAULT);
    CHECK_ERRNO(poll((struct pollfd *)bad, 1, 0), EFAULT);
}

/* What a call tells goes to a page that can only be read. Nothing is taken from the sockets. */
static void told_in_vain(int fd, int udp)
{
    struct epoll_event event = {.events = EPOLLIN};
    char *memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct pollfd *polled = (struct pollfd *)memory;
    fd_set *waiting = (fd_set *)(memory + 512);
    socklen_t *length = (socklen_t *)(memory + 1024), good = sizeof(struct sockaddr_in);
    struct mmsghdr *messages = (struct mmsghdr *)(memory + 1536);
    struct sockaddr_in name;
    struct timeval now = {0, 0};
    int set = epoll_create1(0);
    char byte;
    struct iovec piece = {.iov_base = &byte, .iov_len = 1};
    CHECK(memory != MAP_FAILED && set >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
    *polled = (struct pollfd){.fd = fd, .events = POLLIN};
    FD_ZERO(waiting);
    FD_SET(fd, waiting);
    *length = sizeof name;
    messages->msg_hdr = (struct msghdr){.msg_iov = &piece, .msg_iovlen = 1};
    CHECK(mprotect(memory, page, PROT_READ) == 0);
    CHECK_ERRNO(getsockname(fd, (struct sockaddr *)memory, &good), EFAULT);
    CHECK_ERRNO(getpeername(fd, (struct sockaddr *)memory, &good), EFAULT);
    CHECK_ERRNO(getsockname(fd, (struct sockaddr *)&name, length), EFAULT);
    good = sizeof(int);
    CHECK_ERRNO(getsockopt(fd, SOL_SOCKET, SO_ERROR, memory, &good), EFAULT);
    CHECK_ERRNO(getsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, memory, &good), EFAULT);
    CHECK_ERRNO(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &byte, length), EFAULT);
    CHECK_ERRNO(ioctl(fd, FIONREAD, memory), EFAULT);
    good = sizeof name;
    CHECK_ERRNO(recvfrom(udp, &byte, 1, MSG_PEEK, (struct sockaddr *)memory, &good), EFAULT);
    CHECK_ERRNO(recvmsg(udp, &messages->msg_hdr, MSG_PEEK), EFAULT);
    CHECK_ERRNO(recvmmsg(udp, messages, 1, MSG_PEEK, NULL), EFAULT);
    CHECK_ERRNO(poll(polled, 1, 0), EFAULT);
    CHECK_ERRNO(select(fd + 1, waiting, NULL, NULL, &now), EFAULT);
    CHECK_ERRNO(epoll_wait(set, (struct epoll_event *)memory, 1, 0), EFAULT);
    CHECK(close(set) == 0 && munmap(memory, page) == 0);
}

void server(struct place place)
{
    int fd = tcp_serve_one(place), udp = udp_bound(place.address, place.port + 1);
    char bytes[8];
    tell(fd);
    await(fd); /* nothing that was EFAULT was sent, or was received */
    CHECK(recv(udp, bytes, sizeof bytes, 0) == 1 && bytes[0] == 'u');
    struct sockaddr_in peer;
    socklen_t length = sizeof peer;
    CHECK(recvfrom(udp, bytes, sizeof bytes, 0, (struct sockaddr *)&peer, &length) == 1);
    for (int i = 0; i < 4; i++)
        CHECK(sendto(udp, "datagram", 8, 0, NAME(peer)) == 8);
    send_all(fd, "abcdefgh", 8);
    await(fd);
}

void client(struct place place)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    int fd = tcp_connected(place.address, place.port), udp = udp_connected(place.address, place.port + 1);
    int fresh = socket(AF_INET, SOCK_STREAM, 0);
    char bytes[8];
    page = (size_t)sysconf(_SC_PAGESIZE);
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0);
    char *bad[] = {not_there(), behind_end(), read_only()};
    await(fd);
    CHECK(send(udp, "u", 1, 0) == 1); /* from here on it is bound, and ours if it can be */
    for (int i = 0; i < 2; i++) {
        CHECK_ERRNO(send(fd, bad[i], 1, 0), EFAULT);
        CHECK_ERRNO(send(udp, bad[i], 1, 0), EFAULT);
        small_things(fd, udp, fresh, bad[i]);
    }
    tell(fd);
    CHECK(send(udp, "v", 1, 0) == 1);
    CHECK(polled(fd, POLLIN) == POLLIN && polled(udp, POLLIN) == POLLIN);
    told_in_vain(fd, udp);
    for (int i = 0; i < 3; i++) {
        CHECK(polled(fd, POLLIN) == POLLIN && polled(udp, POLLIN) == POLLIN);
        CHECK_ERRNO(recv(fd, bad[i], 8, 0), EFAULT);
        CHECK_ERRNO(recv(fd, bad[i], 8, MSG_PEEK), EFAULT);
        CHECK_ERRNO(recv(udp, bad[i], 8, 0), EFAULT); /* the datagram is lost, on the kernel too */
    }
    /* What reaches into nothing is filled as far as it is needed. */
    char *edge = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(edge != MAP_FAILED && munmap(edge + page, page) == 0);
    CHECK(recv(udp, edge + page - 8, 64, 0) == 8 && memcmp(edge + page - 8, "datagram", 8) == 0);
    CHECK(recv(fd, edge + page - 3, 3, 0) == 3 && memcmp(edge + page - 3, "abc", 3) == 0);
    CHECK(recv(fd, bytes, 5, MSG_WAITALL) == 5 && memcmp(bytes, "defgh", 5) == 0);
    tell(fd);
    CHECK(faults == 0);
}
