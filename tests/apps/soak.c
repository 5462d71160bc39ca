/* One party of the soak: serves streams of known content, and asks others for theirs, with every way to end.
 *
 *     soak SEED ADDRESS PORT PEER:PORT...        a peer whose PORT is followed by + is never killed
 *
 * SIGUSR1: whole transfers must succeed. SIGUSR2: faults are about; what arrives must still be right. SIGHUP: ask no
 * more. Each time the totals are printed. */
#include "soak_server.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#define ASKERS 3
/* A transfer without progress for so long has failed. */
#define STALLED_MS 6000

struct totals totals;
atomic_int mode = STRICT;

struct peer {
    struct sockaddr_in address;
    int immortal;
};

static struct peer peers[8];
static int peer_count;
static struct sockaddr_in own;

struct asker {
    pthread_t thread;
    uint64_t random;
};

static uint64_t next(struct asker *a, uint64_t below)
{
    a->random++;
    return word_at(a->random, 0) % below;
}

enum ending { WHOLE, RESET, ABANDON, SILENT };

struct transfer {
    int fd;
    struct header header;
    uint64_t sent, received, stop_at;
    enum ending ending;
    int verdict, half_closed;
};

static uint64_t size(struct asker *a)
{
    static const uint64_t most[] = {2, 100, 5000, 60000, 60000, 1000000};
    return next(a, most[next(a, sizeof most / sizeof *most)]);
}

/* As the server's: -1 over, 0 no more for now, 1 go on. */
static int push(struct transfer *t)
{
    unsigned char bytes[16 * 1024];
    uint64_t whole = sizeof t->header + t->header.up;
    if (t->sent == whole) {
        if (!t->half_closed && shutdown(t->fd, SHUT_WR) != 0)
            return -1;
        t->half_closed = 1;
        return 0;
    }
    size_t count;
    if (t->sent < sizeof t->header) {
        count = sizeof t->header - t->sent;
        memcpy(bytes, (unsigned char *)&t->header + t->sent, count);
    } else {
        uint64_t at = t->sent - sizeof t->header, left = whole - t->sent;
        count = left < sizeof bytes ? (size_t)left : sizeof bytes;
        fill(t->header.seed, at, bytes, count);
    }
    ssize_t done = send(t->fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (done < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    t->sent += (uint64_t)done;
    return 1;
}

/* 2: the stream's end. */
static int pull(struct transfer *t)
{
    unsigned char bytes[16 * 1024];
    ssize_t count = recv(t->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (count < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    if (count == 0)
        return 2;
    size_t streams = (size_t)count;
    if (t->received + streams > t->header.down) {
        streams = (size_t)(t->header.down - t->received);
        t->verdict = bytes[streams] == VERDICT && (size_t)count == streams + 1 && !t->verdict;
        if (!t->verdict)
            wrong("verdict", t->header.seed, t->received);
    }
    long at = differs(~t->header.seed, t->received, bytes, streams);
    if (at >= 0)
        wrong("byte at the client", t->header.seed, t->received + (uint64_t)at);
    t->received += streams;
    return 1;
}

/* 0: its end came; else an errno. */
static int exchange(struct transfer *t)
{
    uint64_t moved = now_ms();
    for (;;) {
        uint64_t before = t->sent + t->received;
        int in = 1, out = 1;
        while (out == 1)
            out = push(t);
        if (out < 0 && errno != EPIPE)
            return errno;
        while (in == 1)
            in = pull(t);
        if (in < 0)
            return errno;
        if (in == 2)
            return 0;
        if (t->ending != WHOLE && t->sent + t->received >= t->stop_at)
            return 0;
        if (t->sent + t->received != before)
            moved = now_ms();
        else if (now_ms() - moved > STALLED_MS)
            return ETIMEDOUT;
        struct pollfd wait = {t->fd, (short)(POLLIN | (t->half_closed ? 0 : POLLOUT)), 0};
        poll(&wait, 1, 500);
    }
}

static int connected(const struct peer *peer)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), error = 0;
    socklen_t length = sizeof error;
    if (connect(fd, (const struct sockaddr *)&peer->address, sizeof peer->address) == 0)
        return fd;
    if (errno == EINPROGRESS) {
        struct pollfd wait = {fd, POLLOUT, 0};
        errno = ETIMEDOUT;
        if (poll(&wait, 1, STALLED_MS) == 1 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0)
            return fd;
        errno = error ? error : errno;
    }
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

static void ended(struct transfer *t, const struct peer *peer, int error, int strict)
{
    if (error == 0 && t->verdict && t->received == t->header.down) {
        atomic_fetch_add(&totals.complete, 1);
        return;
    }
    errno = error;
    if (error == 0) {
        atomic_fetch_add(&totals.cut, 1);
        if (peer->immortal)
            wrong("the stream ended early though nobody was killed", t->header.seed, t->received);
    } else
        atomic_fetch_add(error == ETIMEDOUT ? &totals.timeout : &totals.reset, 1);
    if (strict && atomic_load(&mode) == STRICT)
        wrong("transfer failed", t->header.seed, t->received);
}

static void stream(struct asker *a)
{
    const struct peer *peer = &peers[next(a, (uint64_t)peer_count)];
    int strict = atomic_load(&mode) == STRICT;
    struct transfer t = {.fd = connected(peer)};
    if (t.fd < 0) {
        atomic_fetch_add(&totals.refused, 1);
        if (strict && atomic_load(&mode) == STRICT)
            wrong("connect failed", ntohs(peer->address.sin_port), ntohl(peer->address.sin_addr.s_addr));
        return;
    }
    t.header = (struct header){a->random, size(a), size(a)};
    uint64_t how = next(a, 20);
    t.ending = how < 16 ? WHOLE : how == 16 ? RESET : how == 17 ? SILENT : ABANDON;
    t.stop_at = next(a, t.header.up + t.header.down + 1);
    int error = exchange(&t);
    if (t.ending == WHOLE)
        ended(&t, peer, error, strict);
    if (t.ending == SILENT)
        usleep((useconds_t)next(a, 2000000));
    if (t.ending == RESET)
        reset(t.fd);
    else
        close(t.fd);
}

static void datagrams(struct asker *a)
{
    const struct peer *peer = &peers[next(a, (uint64_t)peer_count)];
    unsigned char sent[4000], got[9000];
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (next(a, 2) && bind(fd, (struct sockaddr *)&own, sizeof own) != 0)
        goto out;
    if (connect(fd, (const struct sockaddr *)&peer->address, sizeof peer->address) != 0)
        goto out;
    for (int i = 0; i < 10; i++) {
        uint64_t seed = a->random;
        size_t length = next(a, next(a, 8) ? 1400 : sizeof sent);
        fill(seed, 0, sent, length);
        if (send(fd, sent, length, MSG_DONTWAIT) < 0)
            continue;
        atomic_fetch_add(&totals.udp_sent, 1);
        struct pollfd wait = {fd, POLLIN, 0};
        if (poll(&wait, 1, 300) != 1)
            break; /* an echo that came late would be taken for the next one's */
        ssize_t count = recv(fd, got, sizeof got, MSG_DONTWAIT);
        if (count < 0)
            continue;
        if ((size_t)count != length || differs(seed, 0, got, length) >= 0)
            wrong("datagram", seed, (uint64_t)count);
        atomic_fetch_add(&totals.udp_echoed, 1);
    }
out:
    close(fd);
}

static void *ask(void *argument)
{
    struct asker *a = argument;
    for (;;) {
        usleep((useconds_t)next(a, 20000));
        if (atomic_load(&mode) == IDLE)
            continue;
        (next(a, 5) ? stream : datagrams)(a);
    }
    return NULL;
}

static void *serve_thread(void *unused)
{
    struct sockaddr_in *address = unused;
    serve(address);
    return NULL;
}

static struct sockaddr_in name(const char *address, const char *port)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    if (inet_pton(AF_INET, address, &name.sin_addr) != 1)
        exit(2);
    return name;
}

static void tell(void)
{
    printf("total complete=%lu refused=%lu reset=%lu timeout=%lu cut=%lu served=%lu udp_sent=%lu udp_echoed=%lu "
           "wrong=%lu\n",
           totals.complete, totals.refused, totals.reset, totals.timeout, totals.cut, totals.served, totals.udp_sent,
           totals.udp_echoed, totals.wrong);
    fflush(stdout);
}

int main(int count, char **words)
{
    static struct asker askers[ASKERS];
    struct sockaddr_in address;
    if (count < 5) {
        fprintf(stderr, "usage: %s SEED ADDRESS PORT PEER:PORT[+]...\n", words[0]);
        return 2;
    }
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    address = name(words[2], words[3]);
    own = address;
    own.sin_port = 0;
    for (int i = 4; i < count && peer_count < 8; i++) {
        char *port = strchr(words[i], ':');
        if (!port)
            return 2;
        *port++ = 0;
        peers[peer_count++] = (struct peer){name(words[i], port), strchr(port, '+') != NULL};
    }
    pthread_t server;
    pthread_create(&server, NULL, serve_thread, &address);
    /* Nobody asks before it is told to: the others may not be there yet. */
    atomic_store(&mode, IDLE);
    for (int i = 0; i < ASKERS; i++) {
        askers[i].random = word_at(strtoull(words[1], NULL, 10), (uint64_t)i);
        pthread_create(&askers[i].thread, NULL, ask, &askers[i]);
    }
    for (;;) {
        int signal = 0;
        sigwait(&set, &signal);
        atomic_store(&mode, signal == SIGUSR1 ? STRICT : signal == SIGUSR2 ? STORM : IDLE);
        tell();
    }
}
